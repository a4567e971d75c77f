"""Top-level domains, to tell an address from code that looks like one.

Country codes after ISO 3166-1 as IANA delegated them, and the generic ones that carry most mail, with the names
that RFC 2606 reserves for examples. A name under another domain is not taken for an address.
"""

from __future__ import annotations

from typing import Final

_COUNTRIES = """
ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cc cd cf
cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gd ge gf gg
gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn
kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na
nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb sc sd se sg sh
si sk sl sm sn so sr ss st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz va vc ve
vg vi vn vu wf ws ye yt za zm zw
"""
_GENERIC = """
com org net edu gov mil int info biz name pro mobi asia coop aero museum jobs travel tel cat post xxx arpa
app dev cloud online site tech store shop blog xyz top club live news email group world today life agency digital
company solutions services systems network software studio design media art center academy school university
health care clinic bank finance legal law consulting ltd inc gmbh vip wang ren ink link wiki page
example test invalid local localhost
"""
TOP_LEVEL: Final = frozenset(f"{_COUNTRIES} {_GENERIC}".split())

# Domains that are also endings of files: of these only names with more in front than a file has.
_ENDINGS: Final = frozenset("sh py rs ps md pl so cc mm do st is id in to re".split())  # noqa: SIM905  # noqa: SIM905 (a list of forty literals says no more)


def is_domain(name: str) -> bool:
    """Whether ``name`` (labels with dots) ends in a known domain, spelt in one case and not like code."""
    labels = name.split(".")
    last = labels[-1]
    if last.lower() not in TOP_LEVEL and not last.lower().startswith("xn--"):
        return False
    if not (last.islower() or last.isupper()):
        return False
    # A matrix product or a member (a@b.do): one letter before such an ending.
    return not (last in _ENDINGS and len(labels[-2]) == 1)
