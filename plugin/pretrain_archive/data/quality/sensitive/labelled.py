# ruff: noqa: E501 (a look-alike is a line)
"""A small labelled corpus: what the detector must find, and what looks alike and must be left alone.

All persons, numbers and keys are made up or come from ranges and numbers that standards and issuers reserve for
examples: RFC 2606 and 5737 and 3849, card numbers of payment test systems, IBAN examples of the SWIFT registry,
telephone numbers of Ofcom's and NANPA's drama ranges. Keys are put together here from filler.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A text and the places that are sensitive in it, as kind and the words themselves; none for a look-alike."""

    text: str
    kind: str = ""
    words: str = ""


def _all(kind: str, *texts: str) -> list[Example]:
    """Examples written as ``before {words} after``."""
    examples = []
    for text in texts:
        words = text[text.index("{") + 1 : text.rindex("}")]
        examples.append(Example(text=text.replace("{" + words + "}", words), kind=kind, words=words))
    return examples


_FILL = "Z8q3Xw7Lk2Vb9Nf4Tj6Rp1Hs5Dg0Mc8Yt3Qa7Ue2Io9Wz4Kx6Bv1Nl5Pj0"


def _key(prefix: str, length: int, *, fill: str = _FILL) -> str:
    return prefix + (fill * (1 + length // len(fill)))[:length]


def _web_token() -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"A"}', "signature of the example")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


_ARMOUR = "-" * 5
_PEM = f"{_ARMOUR}BEGIN RSA PRIVATE KEY{_ARMOUR}\n{_FILL}\n{_FILL}\n{_ARMOUR}END RSA PRIVATE KEY{_ARMOUR}"

_FOUND: Final = [
    *_all(
        "email",
        "write to {ana@mail.example.org} please",
        "{x.y+tag@sub.dept.example.com}",
        "邮箱{wang.li@example.cn}请查收",
        "<a href='mailto:{info@example.co.uk}'>",
        'author = "{J_Doe-99@example.museum}"',
        "Reach ({o'neil@example.net}), or call.",
        "From: A <{a@b.example.com}>",
        "?user={tom@example.com}&x=1",
        "EMAIL:{TOM@EXAMPLE.COM};",
        "mail {sales@xn--bcher-kva.example.de}.",
        "{first.last@cs.uni.example.edu}: see note",
        "Contact {press@example.org}, thanks",
    ),
    *_all(
        "ipv4",
        "host {203.0.113.77} is down",
        "from {198.51.100.4} port 22",
        "http://{192.0.2.10}:8080/x",
        "{10.0.0.12}:5432 refused",
        "ping {8.8.8.8}",
        "{203.0.113.9} - - [10/Oct/2024:13:55:36]",
        "服务器 {192.168.1.17} 离线",
        "allow {10.20.0.0}/16;",
        "server={172.16.254.1}",
        "ip: {1.1.1.1}",
        "connected to {45.33.32.156}, ok",
        "nameserver {9.9.9.9}",
    ),
    *_all(
        "ipv6",
        "host {2001:db8::8a2e:370:7334} up",
        "[{2001:db8::1}]:443",
        "inet6 {fe80::1ff:fe23:4567:890a}%eth0",
        "{2001:0db8:0000:0000:0000:ff00:0042:8329}",
        "peer {2001:db8:1:2::5}, port 9",
        "addr {fd12:3456:789a:1::1}",
        "{ff02::1} is all nodes",
        "mapped {::ffff:192.0.2.128} here",
        "via {2001:db8:ffff::42} today",
        "地址{2001:db8:85a3::8a2e}。",
    ),
    *_all(
        "phone",
        "call {+1 212-555-0123} now",
        "{+44 20 7946 0958}",
        "tel. {+86 138 1234 5678}",
        "手机号{13812345678}，谢谢",
        "ring ({212) 555-0145".replace("({", "{(") + "} today",
        "{+49 30 901820}",
        "fax {415-555-2671}",
        "电话：{010-62512345}",
        "{+33 1 42 68 53 00}",
        "联系 {138 1234 5678} 王女士",
        "whatsapp {+34 612 345 678}",
        "{+81-3-3581-0101}",
    ),
    *_all(
        "card",
        "card {4111 1111 1111 1111}",
        "pay {5555555555554444} today",
        "amex {3782-822463-10005}",
        "{6011111111111117}",
        "visa: {4012-8888-8888-1881}",
        "卡号{6200000000000005}",
        "mc {2223003122003222}",
        "jcb {3530 1113 3330 0000}",
        "diners {30569309025904}",
        "cc={4242424242424242};",
    ),
    *_all(
        "iban",
        "to {GB29 NWBK 6016 1331 9268 19}",
        "{DE89370400440532013000}",
        "IBAN: {FR14 2004 1010 0505 0001 3M02 606}",
        "{NL91ABNA0417164300}, thanks",
        "konto {CH93 0076 2011 6238 5295 7}",
        "pay {ES9121000418450200051332}",
        "{IT60X0542811101000000123456}",
        "account {BE68 5390 0754 7034} please",
        "{NO9386011117947}",
        "{PL61109010140000071219812874}",
    ),
    *_all(
        "cn_resident_id",
        "身份证{11010519491231002X}号",
        "id {440308199901101512}",
        "证件号码：{11010519491231002X}",
        "持证人 {320311770706001}".replace("320311770706001", "440308199901101512"),
        "ID={11010519491231002X};",
        "[{440308199901101512}]",
        "号码 {11010519491231002X}",
        "居民身份证 {440308199901101512}",
        "id:{11010519491231002X}",
        "{440308199901101512}",
    ),
    *_all(
        "us_ssn",
        "SSN {536-90-4399}",
        "his number {219-45-6781} leaked",
        "social security no. {536 90 4399}",
        "ssn={123-45-6788}",
        "ssn: {536904399}",
        "{401-22-3344}, born 1970",
        "taxpayer {234-56-7891}",
        "({345-67-8912})",
        "SSN:{456-78-9123}",
        "a person, {567-89-1234}",
    ),
    *_all(
        "national_id",
        "CPF {390.533.447-05}",
        "{529.982.247-25} é o CPF",
        "codice {RCCMNL83S18D969H}",
        "NIR {2 95 10 99 126 111 93}",
        "num {295109912611193} insee",
        "cpf:{111.444.777-35}",
        "RRN {971013-9019902}".replace("971013-9019902", "971013-1019901"),
        "CF: {RCCMNL83S18D969H}.",
        "o CPF {390.533.447-05}.",
        "cf {RCCMNL83S18D969H}, nato",
    ),
    *_all(
        "secret",
        "key {" + _key("AKIA", 16, fill="QWERTYUIOPASDFGH") + "}",
        "{" + _key("ghp_", 36) + "}",
        "token={" + _key("github_pat_", 22) + "_" + _key("", 59) + "}",
        "{" + _key("xox" + "b-123456789012-", 24, fill="abcdefghij0123456789abcd") + "}",
        "Bearer {" + _web_token() + "}",
        "{" + _PEM + "}",
        "{" + _key("sk_live_", 24) + "}",
        "postgres://app:{s3cr3tPw}@db.example.org/x",
        "{" + _key("hf_", 34, fill="abcdefghijklmnopqrstuvwxyzABCDEFGH") + "}",
        "{" + _key("AIza", 35) + "}",
        "{" + _key("glpat-", 20) + "}",
        "accessKeyId: {" + _key("LTAI", 20) + "}",
        "{" + _key("SG.", 22) + "." + _key("", 43) + "}",
    ),
]

_LEFT_ALONE: Final = [
    "built with tool 3.12.4.1 today", "release v2.0.10.77", "version 10.120.4.1", "loss = 0.473150688201945",
    "order 2024-0000-1187-55", "date 2024-11-05 10:22:31", "ratio 4000000000000.5", "SHA 4ab1c0ffee",
    "grid ref 51.5007, 0.1246", "card 4111 1111 1111 1112", "ISBN 978-3-16-148410-0", "ISBN 9783161484100",
    "uuid 123e4567-e89b-12d3-a456-426614174000", "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "time 12:30:45 and 23:59:59", "std::vector<int> a::b c; be::ad::x", "x[1::2] + y[::3] + z[2000::2]",
    "color: #a1b2c3; background: #fff", "mac 00:1A:2B:3C:4D:5E", "ssh ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89",
    "eui 00:11:22:33:44:55:66:77", "@media (max-width: 600px)", "@app.route('/x')", "y = q@k.T + x@w.mT",
    "git clone git@github.com:org/repo.git", "<img src='logo@2x.png'>", "npm i lodash@4.17.21", "@types/node@18.11.9",
    "scores = a@b.shape", "user@localhost5", "order no. 4929 1234 5678 9012", "invoice 4539578763621486",
    "订单号13812345678", "订单 4111111111111111", "epoch 1700000000000", "timestamp 1700000000",
    "phone model 12-34-56", "pages 123-456", "range 2010-2020-2030", "1,234,567,890,123,456", "pi 3.14159265358979323846",
    "part 123-45-6789-X", "000-12-3456 and 666-12-3456", "900-12-3456", "section 4.12.1.100", "§ 1.2.3.4",
    "OID 1.3.6.1.4.1.311", "chrome 120.0.6099.109", "1.2.3.4", "pip install x==1.22.333.4", "lib-1.0.200.4.tar.gz",
    "身份证号 110105194912310021", "编号 440308199901101513", "ID 440308199913101512", "GB29 NWBK 6016 1331 9268 18",
    "DE00123456789012345678", "AA11 BBBB CCCC", "CPF 390.533.447-06", "RCCMNL83S18D969A", "971013-9019903",
    "serial 1234-5678-9012-3456", "doi:10.1000/182.1234.5678", "room 212-555", "2+3=5, 4+44=48", "C++17 +100 points",
    "temperature +23.5 to +37.2", "+0000 (UTC)", "2024-11-05T10:22:31+08:00", "diff --git a/x b/x\n+12345678\n+99",
    "AKIA is a prefix", "a key begins with -----BEGIN RSA PRIVATE KEY----- and ends likewise",
    "ghp_short", "https://user:$PASSWORD@example.org/", "https://host:8080/path@v2", "postgres://localhost:5432/db",
    "eyJhbGciOi is cut", "task-usage and focus-us1", "HACKED SKELETON ACCOUNT", "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAKIAQWERTYUIOPASDFGHJK",
    "0123456789abcdef0123456789abcdef", "tensor shape 1024x1024x3 at 16:9", "1e-5, 1E+10, 0x1F600", "9999999999999999",
    "2147483647 4294967295 18446744073709551615", "12:34", "fe::fa", "::", "host ::1", "listen on 127.0.0.1:8080 or 0.0.0.0", "netmask 255.255.255.0", "1::", "abc::def", "dead::beef()", "face::cafe",
    "a/b@c", "@", "foo@bar", "foo@bar.unknowntld", "@user.name said", "x @ y.com", "price $4111.1111", "v1.2.3.4-rc1",
    "5555 5555 5555 5555", "0000 0000 0000 0000", "11/05/2024 10:22", "3-0-1-2-4-5-6-7-8-9", "80-20-10", "1-800-FLOWERS",
]  # fmt: skip

EXAMPLES: Final = (*_FOUND, *(Example(text=text) for text in _LEFT_ALONE))
"""All examples, in a fixed order."""
