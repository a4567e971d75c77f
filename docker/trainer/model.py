"""A small decoder-only transformer over bytes.

Pre-norm blocks (Zhang and Sennrich 2019), rotary positions (Su et al. 2021), causal attention. The input of a
position is the sum of the embeddings of its byte and of a few bytes before it: that gives the first layer
short n-grams at the price of a lookup, which is what makes a CPU minute enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from configuration import Configuration, Model
from corpus import BOUNDARY, SYMBOLS
from torch import Tensor, nn
from torch.nn import functional

BYTES = 256
IGNORED = -100  # target of positions that do not count


class Block(nn.Module):
    """Attention, then a feed-forward layer, each added to what came in."""

    def __init__(self, shape: Model) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Linear(width, 4 * width, bias=False)
        self.mlp_out = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """``x`` has shape (batch, positions, width); so has the answer."""
        batch, length, width = x.shape
        joined = self.attention(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        query, key = _rotate(query, cosine, sine), _rotate(key, cosine, sine)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        hidden = functional.gelu(self.mlp(self.before_mlp(x)), approximate="tanh")
        out: Tensor = x + self.mlp_out(hidden)
        return out


class Transformer(nn.Module):
    """Logits over 256 bytes for the symbol after each position; the boundary symbol is never predicted."""

    def __init__(self, shape: Model) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, shape.width)
        self.previous = nn.ModuleList(nn.Embedding(SYMBOLS, shape.width) for _ in range(shape.previous_bytes))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, BYTES, bias=False)
        channels = shape.width // shape.heads
        frequencies = 10000.0 ** -(torch.arange(0, channels, 2) / channels)
        angles = torch.outer(torch.arange(shape.context), frequencies)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, symbols: Tensor) -> Tensor:
        """``symbols`` has shape (batch, positions); the answer (batch, positions, 256)."""
        length = symbols.shape[1]
        x = self.embedding(symbols)
        for back, table in enumerate(self.previous, 1):
            x = x + table(functional.pad(symbols, (back, 0), value=BOUNDARY)[:, :length])
        cosine, sine = self.get_buffer("cosine")[:length], self.get_buffer("sine")[:length]
        for block in self.blocks:
            x = block(x, cosine, sine)
        logits: Tensor = self.head(self.norm(x))
        return logits


def build_model(configuration: Configuration) -> Transformer:
    """The untrained model: its weights follow from the seed and the shape alone."""
    torch.manual_seed(configuration.seed)
    model = Transformer(configuration.model)
    with torch.no_grad():
        nn.init.normal_(model.embedding.weight, std=0.5)
        for table in model.previous:
            nn.init.normal_(table.get_parameter("weight"), std=0.3)
        for block in model.blocks:
            # Blocks that start by adding nothing train faster at first; every gradient but theirs is alive.
            nn.init.zeros_(block.get_parameter("attention_out.weight"))
            nn.init.zeros_(block.get_parameter("mlp_out.weight"))
        nn.init.normal_(model.head.weight, std=0.02)
    return model


def prepare_torch(configuration: Configuration) -> None:
    """Fix the number of threads and refuse operations whose result may vary."""
    torch.set_num_threads(configuration.threads)
    torch.use_deterministic_algorithms(mode=True)


def precision(configuration: Configuration) -> AbstractContextManager[object]:
    """The context in which the model computes; weights stay in float32."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=configuration.dtype == "bfloat16")


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """``sha256:`` over name, shape and little-endian bytes of every tensor, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        total.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        total.update(tensor.numpy().tobytes())
    return f"sha256:{total.hexdigest()}"


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, left * sine + right * cosine), dim=-1)
