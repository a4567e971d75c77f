"""Items of the compute track: what ran in which environment, and how each attempt ended."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.package.findings import changed, missing, verified


def configuration(view: RunView) -> Item:
    """Configuration and environment, as declared and as workers found it."""
    name, check = (
        "compute.configuration",
        "configuration and environment hash to their ids; workers found the same",
    )
    declared, environment = view.last(kinds.ConfigurationDeclared), view.last(kinds.EnvironmentDeclared)
    if declared is None or environment is None:
        return missing(
            name, "compute", view, role="platform_owner", hint="Declare configuration and environment."
        )
    records = [declared[0], environment[0]]
    pairs = (
        (declared[1].configuration_digest, digest_of(declared[0].payload["configuration"])),
        (environment[1].environment_digest, digest_of(environment[0].payload["environment"])),
    )
    for expected, computed in pairs:
        if expected != computed:
            return changed(name, "compute", check, records, expected, computed)
    observed = list(view.all(kinds.EnvironmentObserved))
    # ``info`` is placement, or what nobody declared: it breaks no promise, and the record names it.
    drift = [(record, d) for record, p in observed for d in p.differences if d.get("grade") != "info"]
    if drift:
        texts = sorted({str(d.get("field", d)) for _, d in drift})
        return changed(
            name, "compute", check, [drift[0][0]], "the declared environment", "other: " + ", ".join(texts)
        )
    if not observed:
        return missing(
            name,
            "compute",
            view,
            role="platform_owner",
            hint="No worker reported its environment.",
            check=check,
        )
    return verified(name, "compute", check, [*records, observed[-1][0]], declared[1].configuration_digest)


def events(view: RunView) -> Item:
    """Every attempt has an end."""
    name, check = "compute.events", "every attempt that began has a recorded end"
    started = {payload.attempt: record for record, payload in view.all(kinds.AttemptStarted)}
    ended = {payload.attempt: record for record, payload in view.all(kinds.AttemptEnded)}
    if not started:
        return missing(name, "compute", view, role="platform_owner", hint="No attempt was started.")
    if open_ones := sorted(started.keys() - ended.keys()):
        return missing(
            name, "compute", view, role="platform_owner", check=check,
            hint=f"Attempt {', '.join(map(str, open_ones))} has no recorded end.",
        )  # fmt: skip
    return verified(name, "compute", check, list(ended.values()), f"{len(started)} attempts")
