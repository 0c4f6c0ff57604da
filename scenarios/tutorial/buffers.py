"""How large a buffer keeps a link busy?"""

from warpline import study

SIZES = [0.05, 0.125, 0.25, 0.5, 1.0]
"""Sizes of the buffer, in bandwidth-delay products of the path."""

BUFFERS = study.Figure(
    name="buffers",
    title="Use of a link of 40 Mbit/s whose buffer is small",
    scenario=study.file("buffer.toml", lambda at: {"flow.bulk.count": at["flows"], "topology.bottleneck.queue.limit": f"{at['bdp']}BDP"}),
    points=study.grid(flows=[1, 4, 16, 64, 256], bdp=SIZES),
    seeds=3,
    measures={"used": "link.r1>r2.utilisation"},
    labels={"used": "Used", "bdp": "Buffer (BDP)", "flows": "Flows"},
    picture=study.lines(x="bdp", y="used", by="flows", log="x"),
    claims=[
        study.Claim(
            text="one flow needs a whole BDP: with a quarter of it, the link is used less than",
            ours=lambda results: results.mean("used", flows=1, bdp=0.25),
            theirs=0.95,
            bound=study.at_most(),
        ),
        study.Claim(
            text="16 flows need a quarter, one over the root of 16: with it, the link is used at least",
            ours=lambda results: results.mean("used", flows=16, bdp=0.25),
            theirs=0.98,
            bound=study.at_least(),
        ),
    ],
    quick=study.quick(points=study.grid(flows=[1, 16], bdp=[0.25, 1.0]), seeds=1),
)
