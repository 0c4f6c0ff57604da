"""Figures 7, 8 and 11: the CPU of senders or receivers as the limit.

How much of a core a bottleneck takes is measured first, with a whole core (the 100 % line of the paper). From there the share is halved until
the largest bottleneck is no longer full, on any machine: a guest that is held back takes packets in larger batches, and needs less than
it uses when it is free. That it was is not inferred from the
throughput: the control group counts the periods in which the guests were held back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from network import Network

if TYPE_CHECKING:
    from study import Study

# A share is the limit if the guests were held back in this part of the periods at least, and is not if in this part at most.
HELD_BACK, FREE = 0.5, 0.1
# Where the search for the share begins, as a part of what was used of a whole core, and what part of the whole core's throughput is little enough.
PART, ENOUGH = 0.5, 0.7
# How close the throughputs of two factors with the same perceived CPU must be.
CLOSE = 0.15
DILATED = 10


def measure(study: Study, name: str, rate: int, tdf: float, who: int, share: float, span: tuple[float, float]) -> dict:
    """A run in which the machine of one side has this share of a core: a row of the results."""
    flows = 10 if study.short else 50
    shares = (share, None) if who == 0 else (None, share)
    row = study.flows(name, Network(rate, [(flows, 80)], *span, shares=shares), tdf)
    own = row["cpu"][("left-0", "right-0")[who]]
    return {
        "rate_mbit": rate, "tdf": tdf, "share": own["share"], "used": own.get("used"), "period_ms": own["period_ms"], "held_back": own["throttled"],
        "flow_mbit": row["mean"][0], "flow_stdev_mbit": row["stdev"][0], "of_link": row["sum"] / rate, "kept_pace": row["kept_pace"],
    }  # fmt: skip


def show(row: dict, wrong: str = "") -> None:
    used = f"{row['used']:.1%}" if row["used"] is not None else "an unknown part"
    print(f"  {row['rate_mbit']:5} Mbit/s, TDF {row['tdf']:3g} with {row['share']:.2%} of a core: {row['flow_mbit']:8.3f} Mbit/s per flow, {row['of_link']:.1%} of the "
          f"link; used {used}, held back in {row['held_back']:.0%} of the periods{'' if row['kept_pace'] else '  (did not keep pace)'}{wrong}", flush=True)  # fmt: skip


def saturated(study: Study, name: str, rate: int, who: int, span: tuple[float, float]) -> tuple[dict, float]:
    """The run with a whole core at a factor of 10, and the share of the core that it used."""
    whole = measure(study, f"{name}-{rate}-whole", rate, DILATED, who, 1.0, span)
    if whole["used"] is None:
        raise RuntimeError("this machine's control groups do not count the time on a core (cpuacct.usage, or cpu.stat of version 2)")
    return whole, whole["used"]


def scaled(study: Study, name: str, who: int) -> object:
    """Lines over the bottleneck: a whole core at a factor of 10, and the same perceived CPU at each factor, by default 1 and 10."""
    factors = study.factors or [DILATED, 1]
    rates = study.bottlenecks([50, 400], [50, 100, 200, 400, 800])
    span = study.span(*((3.0, 1.0) if study.short else (10.0, 3.0)))
    whole = {rate: saturated(study, name, rate, who, span) for rate in reversed(rates)}
    least = 0.001 * max(factors) / DILATED
    share = max(least, PART * whole[rates[-1]][1])
    while share > least:
        tried = measure(study, f"{name}-{rates[-1]}-search", rates[-1], DILATED, who, round(share, 5), span)
        if tried["of_link"] < ENOUGH * whole[rates[-1]][0]["of_link"]:
            break
        share = max(least, share / 2)
    share = round(share, 5)
    print(f"  {rates[-1]} Mbit/s take {whole[rates[-1]][1]:.2%} of a core at TDF {DILATED}; the shares are "
          + ", ".join(f"{min(1, share * DILATED / tdf):.2%} at TDF {tdf:g}" for tdf in factors), flush=True)
    found: list[dict] = []
    curves: dict[str, tuple] = {}
    for rate in rates:
        full, used = whole[rate]
        rows = [full] + [measure(study, f"{name}-{rate}-{tdf:g}", rate, tdf, who, min(1, share * DILATED / tdf), span) for tdf in factors]
        for row, line in zip(rows, ["whole core", *(f"TDF {tdf:g}" for tdf in factors)]):
            part = f"{name}, {rate} Mbit/s, {line}"
            wrong = ""
            if line == "whole core":
                wrong += study.check(row["held_back"] <= FREE, f"{part}: a whole core was not enough", row["kept_pace"])
            elif used < 0.6 * share:
                wrong += study.check(row["of_link"] >= 0.95 * full["of_link"], f"{part}: the share was the limit where it should not be", row["kept_pace"])
            elif rate == rates[-1]:
                held = row["held_back"] >= HELD_BACK and row["of_link"] < 0.9 * full["of_link"]
                wrong += study.check(held, f"{part}: the share was not the limit", row["kept_pace"])
            found.append(row | {"line": line})
            show(row, wrong)
            xs, ys = curves.setdefault(line, ([], []))
            xs.append(rate)
            ys.append(row["flow_mbit"])
        for other in rows[2:]:
            off = other["of_link"] / rows[1]["of_link"] - 1
            study.check(abs(off) <= CLOSE, f"{name}, {rate} Mbit/s: TDF {other['tdf']:g} carries {off:+.1%} of what TDF {rows[1]['tdf']:g} carries with the same perceived CPU",
                        rows[1]["kept_pace"] and other["kept_pace"])  # fmt: skip
    study.plot(name, "bottleneck in Mbit/s", "Mbit/s per flow", curves)
    return found


def shares(study: Study) -> object:
    """Figure 11: several shares of the senders' CPU at each bottleneck."""
    found: list[dict] = []
    curves: dict[str, tuple] = {}
    span = study.span(*((3.0, 1.0) if study.short else (8.0, 3.0)))
    rates = study.bottlenecks([400], [500, 1000, 2000, 4000])
    top, used = saturated(study, "figure11", rates[-1], 0, span)
    parts = [0.25, 2] if study.short else [0.125, 0.25, 0.5, 1, 2]
    for rate in rates:
        rows = [measure(study, f"figure11-{rate}-{part}", rate, DILATED, 0, min(1.0, max(0.001, round(part * used, 4))), span) for part in parts]
        rows.append(top if rate == rates[-1] else measure(study, f"figure11-{rate}-whole", rate, DILATED, 0, 1.0, span))
        for less, more in zip([None, *rows], rows):
            wrong = ""
            if less is not None:
                # More CPU carries more, until the link is full.
                wrong = study.check(more["of_link"] >= less["of_link"] - 0.02, f"figure11, {rate} Mbit/s: {more['share']:.1%} of a core carry less than {less['share']:.1%}",
                                    more["kept_pace"] and less["kept_pace"])  # fmt: skip
            found.append(more)
            show(more, wrong)
            xs, ys = curves.setdefault(f"{more['share']:.1%}", ([], []))
            xs.append(rate)
            ys.append(more["flow_mbit"])
        least, most = rows[0], rows[-1]
        if rate == rates[-1]:
            study.check(least["held_back"] >= HELD_BACK and least["of_link"] < 0.8 * most["of_link"], f"figure11, {rate} Mbit/s: the least share was not the limit",
                        least["kept_pace"])  # fmt: skip
        study.check(most["held_back"] <= FREE, f"figure11, {rate} Mbit/s: a whole core was not enough", most["kept_pace"])
    study.plot("figure11", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
    return found
