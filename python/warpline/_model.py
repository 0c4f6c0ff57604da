"""The parts of a scenario as dataclasses, with the names and meanings of the TOML file.

Generated from the JSON Schema by python/tools/generate_model.py; change the scenario's structs, not this file. What is left out
(None) has its default. Where a part is expected, a plain mapping with the same keys will do as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, TypeAlias

from warpline._part import Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Bbr(Part):
    """BBR, version 1 (Cardwell et al. 2016).

    Attributes:
        startup_gain: Rate of STARTUP as a multiple of the bandwidth, and its window as a multiple of the bandwidth-
            delay product: 2/ln 2. DRAIN sends at its inverse. Default 2.885. Above 1.
        cwnd_gain: Window of PROBE_BW as a multiple of the bandwidth-delay product. Default 2. At least 1.
        pacing_margin: Part of the rate that is left unused, so that queues get shorter. Default 0.01. At least 0 and
            below 1.
        bandwidth_window: How long a delivery rate counts. Default 10 round trips. At least 1.
        min_rtt_window: How long an RTT counts; then PROBE_RTT looks for the smallest. Above 0s. Default 10s.
        probe_rtt: How long PROBE_RTT lasts, and a round trip at least. Above 0s. Default 200ms.
        quantum: Data that is sent at one moment, as a time at the pacing rate: two segments at least, or one below 1.2
            Mbit/s, and 64 KiB at most. The window allows for three such bursts. Default 1ms.
        aggregation: Whether the window allows for acknowledgements that come together. Default true.
        policers: Whether it looks for policers, and keeps to their rate. Default true.
    """

    KIND: ClassVar[str | None] = "bbr"
    startup_gain: float | None = None
    cwnd_gain: float | None = None
    pacing_margin: float | None = None
    bandwidth_window: int | None = None
    min_rtt_window: Time | None = None
    probe_rtt: Time | None = None
    quantum: Time | None = None
    aggregation: bool | None = None
    policers: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bbr3(Part):
    """BBR, version 3 (draft-ietf-ccwg-bbr).

    Attributes:
        startup_gain: Rate of STARTUP as a multiple of the bandwidth: 4 ln 2. Default 2.77. Above 1.
        cwnd_gain: Window as a multiple of the bandwidth-delay product; a quarter more while probing. Default 2. At
            least 1.
        pacing_margin: Part of the rate that is left unused, so that queues get shorter. Default 0.01. At least 0 and
            below 1.
        loss_threshold: Part of a round trip's data whose loss is too much. Default 0.02. Above 0 and below 1.
        beta: What remains of the bounds at least after a round trip with too much loss. Default 0.7. Above 0 and below
            1.
        headroom: Part of what the path holds that is left free for others between probes. Default 0.15. At least 0 and
            below 1.
        min_rtt_window: How long an RTT counts. Above 0s. Default 10s.
        probe_rtt_interval: How long an RTT puts off PROBE_RTT. Above 0s. Default 5s.
        probe_rtt: How long PROBE_RTT lasts, and a round trip at least. Above 0s. Default 200ms.
        probe_wait: Time from a probe to the next at least, where it is not counted in round trips. Default 2s.
        probe_wait_spread: The largest random time that is added to `probe_wait`. Default 1s.
        quantum: Data that is sent at one moment, as a time at the pacing rate: two segments at least, and 64 KiB at
            most. The window holds three such bursts. Default 1ms.
    """

    KIND: ClassVar[str | None] = "bbr3"
    startup_gain: float | None = None
    cwnd_gain: float | None = None
    pacing_margin: float | None = None
    loss_threshold: float | None = None
    beta: float | None = None
    headroom: float | None = None
    min_rtt_window: Time | None = None
    probe_rtt_interval: Time | None = None
    probe_rtt: Time | None = None
    probe_wait: Time | None = None
    probe_wait_spread: Time | None = None
    quantum: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BernoulliLoss(Part):
    """Each packet is lost with the same probability, independently.

    Attributes:
        probability: Loss probability. 0 to 1.
        longest: Most packets lost one after the other: the next one passes. Default: no limit. At least 1.
    """

    KIND: ClassVar[str | None] = "bernoulli"
    probability: Probability
    longest: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bic(Part):
    """BIC (Xu, Harfoush and Rhee 2004).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        beta: What remains of the window after a loss. Default 819/1024. Above 0 and below 1.
        fast_convergence: Whether a flow that lost before it regained its last maximum gives way. Default true.
        max_increment: Most segments of growth per round trip (S_max). Default 16 segments. At least 1.
        low_window: Window up to which it acts as Reno. Default 14 segments.
        smooth_part: Round trips that the last segments up to the old maximum take. Default 20. At least 1.
        ack_ratio: Whether it grows as many times as fast as an acknowledgement covers segments, as in Linux (tcp_bic.c,
            bictcp_update and bictcp_acked). Default true.
    """

    KIND: ClassVar[str | None] = "bic"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    beta: float | None = None
    fast_convergence: bool | None = None
    max_increment: int | None = None
    low_window: int | None = None
    smooth_part: int | None = None
    ack_ratio: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cake(Part):
    """CAKE (Linux's `sch_cake`; Høiland-Jørgensen et al. 2018).

    Attributes:
        bandwidth: Rate that the queue keeps to. Without it packets leave as fast as the link takes them. Above 0bit/s.
        overhead: Bytes that the bottleneck adds to each IP packet. Without it a packet counts with the link's
            `framing`. At most 256B.
        mpu: What every packet counts at least, overhead included. At most 256B. Default 0B.
        atm: How the bottleneck packs packets. Default noatm.
        diffserv: Which tins there are. The flows' `dscp` says in which one their packets go. Default diffserv3.
        flowmode: Which packets share a queue, and among whom the rate is divided evenly. Default triple-isolate.
        ack_filter: Which acknowledgements are dropped as redundant. Default off.
        rtt: Round-trip time that the AQM expects: its interval. Its target is a twentieth of that. Above 0s. Default
            100ms.
        memlimit: Bytes that may wait. Without it four times what `bandwidth` carries in `rtt`, from 4 MiB to 10240 full
            packets. Above 0B.
        ingress: Whether the shaper stands behind the bottleneck: dropped packets count as sent, since they have crossed
            it. Default false.
    """

    KIND: ClassVar[str | None] = "cake"
    bandwidth: Rate | None = None
    overhead: Size | None = None
    mpu: Size | None = None
    atm: CakeAtm | None = None
    diffserv: CakeDiffserv | None = None
    flowmode: CakeFlowMode | None = None
    ack_filter: CakeAckFilter | None = None
    rtt: Time | None = None
    memlimit: Size | None = None
    ingress: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cdg(Part):
    """CDG (Hayes and Armitage 2011).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default cdg.
        rounds: Rounds that a gradient is averaged over. Default 8. At least 1 and at most 256.
        scale: G: the mean rise of the RTT per round at which the window falls with probability 1 - 1/e. Above 0s.
            Default 3ms.
        beta: What remains of the window after a backoff: about the square root of a half. Default 0.707. Above 0 and
            below 1.
        ineffectual: Backoffs in a row without effect after which there are none; 0 for no limit, as befits background
            traffic. Default 5.
        shadow: Whether there is a shadow window; no, for background traffic. Default true.
        loss_tolerance: Whether a loss counts only where the gradients say that the queue is full. Default false.
    """

    KIND: ClassVar[str | None] = "cdg"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    rounds: int | None = None
    scale: Time | None = None
    beta: float | None = None
    ineffectual: int | None = None
    shadow: bool | None = None
    loss_tolerance: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CellularRadio(Part):
    """The downlink of a cell (LTE) that several users share: transport blocks by the quality of a fading channel, a
    proportionally fair scheduler, and HARQ.

    Attributes:
        blocks: Resource blocks of the carrier: 6, 15, 25, 50, 75 or 100, for 1.4, 3, 5, 10, 15 and 20 MHz. Another
            number counts as the next one below. Default 50. At least 6 and at most 100.
        snr: Mean signal-to-noise ratio, in dB. Default 15 dB. At least -10 and at most 40.
        doppler: Doppler frequency in Hz: how fast the channel changes. 5.6 is that of walking (3 km/h) at 2 GHz; the
            model is for slow fading. Default 5.6 Hz. Above 0 and at most 100.
        users: Users of the cell with something to receive, this one included. Default 1. At least 1 and at most 100.
        memory: Over how many milliseconds the scheduler averages what a user has had. Default 100. At least 1.
        block_error: Part of the transmissions of blocks that are not decoded. A CQI is reported such that it is a tenth
            at most. 0 to 1. Default 0.1.
    """

    KIND: ClassVar[str | None] = "cellular"
    blocks: int | None = None
    snr: float | None = None
    doppler: float | None = None
    users: int | None = None
    memory: int | None = None
    block_error: Probability | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Chain(Part):
    """Nodes "n0" to "nN" in a row with N equal links.

    Attributes:
        hops: Number of links. At least 1 and at most 10000.
        hop: Each link.
    """

    KIND: ClassVar[str | None] = "chain"
    hops: int
    hop: DuplexOptions | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change(Part):
    """A change of a link during the run, written `[[change]]`: what is given is in force from then on, the rest stays.
    The same words as in a `[[link]]`. A packet in transmission finishes at the rate it began with. A packet takes the
    delay in force when it leaves, and none overtakes another by that. BDPs and routes go by what the link is like at
    first.

    Attributes:
        at: When, from the run's start. The changes stand in order of time.
        link: Which link: the name of a `[[link]]`, or its two nodes with a dash, for both directions; or "r1>r2", the
            direction from r1 to r2.
        rate: The rate from then on, in place of a constant one; 0 stops the link, packets wait.
        delay: The propagation delay from then on, one way, where no `delays` or `radio` say what it is.
        loss: What is lost from then on.
        duplicate: What arrives twice from then on.
        corrupt: What arrives with a bit changed from then on.
        jitter: The random delay from then on.
        down: Whether the link is down from then on: what waits or comes is lost, what is under way arrives. The times
            in the link's own `down` hold, too.
    """

    KIND: ClassVar[str | None] = None
    at: Time
    link: str
    rate: Rate | None = None
    delay: Time | None = None
    loss: Loss | None = None
    duplicate: Loss | None = None
    corrupt: Loss | None = None
    jitter: Jitter | None = None
    down: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock(Part):
    """How time passes, written `[clock]`.

    Attributes:
        mode: The kind of clock. Default virtual.
        tdf: dilated: the dilation factor, how many times slower than real time the hosts' clocks run; need not be a
            whole number. "auto" starts at 1 and raises it during the run until this machine keeps up.
        max_lag: real, dilated: the run stops if a packet, live or simulated, is later than this, in the run's time.
            Default: late packets are counted, and the run goes on.
    """

    KIND: ClassVar[str | None] = None
    mode: ClockMode | None = None
    tdf: Tdf | None = None
    max_lag: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Clos(Part):
    """A folded Clos network with three stages of switches: pods of edge and aggregation switches, every edge switch
    joined to every aggregation switch of its pod, and core switches above all pods. Hosts are "host.0", "host.1", ...,
    pod by pod and edge switch by edge switch; switches "edge.P.I" and "agg.P.I" in pod P, and "core.J". The cores are
    shared out among the aggregation switches of a pod: with 8 cores and 4 of these, "agg.P.0" is joined to "core.0" and
    "core.1", "agg.P.1" to "core.2" and "core.3". Flows are spread by hash unless `routing` says otherwise.

    Attributes:
        pods: Pods. At least 1 and at most 10000.
        edges: Edge switches in each pod. At least 1 and at most 10000.
        aggregations: Aggregation switches in each pod. At least 1 and at most 10000.
        cores: Core switches in all, a multiple of `aggregations`. At least 1 and at most 100000.
        hosts: Hosts on each edge switch. At least 1 and at most 10000.
        host: The links between hosts and edge switches; forward is from the host.
        fabric: The links between edge and aggregation switches; forward is upwards. What it does not say of rate,
            delay, queue, framing and MTU is as from an edge switch to a host.
        upper: The links between aggregation and core switches; forward is upwards. What it does not say of rate, delay,
            queue, framing and MTU is as in `fabric`, in each direction.
        oversubscription: How many times more the hosts of an edge switch can send than it can pass on: sets the rate of
            `fabric`, in place of `fabric.rate`.
    """

    KIND: ClassVar[str | None] = "clos"
    pods: int
    edges: int
    aggregations: int
    cores: int
    hosts: int
    host: DuplexOptions | Mapping[str, Any]
    fabric: DuplexOptions | Mapping[str, Any] | None = None
    upper: DuplexOptions | Mapping[str, Any] | None = None
    oversubscription: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Codel(Part):
    """Controlled delay (RFC 8289).

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
        target: Acceptable standing delay; RFC 8289 has it at 5 to 10 % of `interval`. Above 0s, not above `interval`.
            Default 5ms.
        interval: How long the delay must stay above the target, about the largest RTT. Above 0s. Default 100ms.
        ecn: Whether ECN-capable packets are marked instead of dropped. Default false.
    """

    KIND: ClassVar[str | None] = "codel"
    limit: QueueLimit | None = None
    target: Time | None = None
    interval: Time | None = None
    ecn: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compound(Part):
    """Compound TCP (Tan et al. 2006, draft-sridharan-tcpm-ctcp).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        alpha: Factor of the growth per round trip, alpha win^k. Default 0.125. At least 0.
        k: Exponent of the growth per round trip. Default 0.75. At least 0 and at most 1.
        beta: What part of the window a loss takes. Default 0.5. Above 0 and below 1.
        eta: What part of its queue the connection gives up in a round trip. Default 1. At least 0.
        gamma: Segments in the queue from which on the window is too large, and the upper limit of this number where it
            is tuned. Default 30 segments. Above 0.
        gamma_min: Lower limit of `gamma` where it is tuned. Not above `gamma`. Default 5 segments. At least 0.
        lambda_: Weight of a loss in the tuning of gamma; 0 for none. Default 0.8. At least 0 and at most 1.
    """

    KIND: ClassVar[str | None] = "compound"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    alpha: float | None = None
    k: float | None = None
    beta: float | None = None
    eta: float | None = None
    gamma: float | None = None
    gamma_min: float | None = None
    lambda_: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstantDistribution(Part):
    """Always the same.

    Attributes:
        value: The value.
    """

    KIND: ClassVar[str | None] = "constant"
    value: float | Size | Time


@dataclass(frozen=True, kw_only=True, slots=True)
class CorrelatedLoss(Part):
    """Whether a packet is lost is correlated with whether the one before was.

    Attributes:
        probability: Loss probability. 0 to 1.
        correlation: Correlation with the packet before; 1: all share the fate of the first. 0 to 1.
        form: What the correlation means. Default outcomes.
    """

    KIND: ClassVar[str | None] = "correlated"
    probability: Probability
    correlation: Probability
    form: Correlation | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cubic(Part):
    """CUBIC (RFC 9438).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default linux.
        c: C, the aggressiveness, in segments per second cubed. Default 0.4. Above 0.
        beta: What remains of the window after a loss. Default 0.7. Above 0 and below 1.
        beta_ecn: What remains of the window after an ECN echo; RFC 8511 recommends 0.85. Default 0.7. Above 0 and below
            1.
        fast_convergence: Whether a flow that lost before it regained its last maximum gives way to newer flows (RFC
            9438 section 4.7). Default true.
        reno_friendly: Whether the window is at least what Reno's would be (RFC 9438 section 4.3). Default true.
        catch_up: Whether Reno's window is taken to grow by a whole segment per round trip once it has regained the last
            maximum, as RFC 9438 section 4.3 has it; Linux (tcp_cubic.c, bictcp_update) does not. Default false.
        restore: Whether the undo of a needless reduction restores the function as well as the window (RFC 9438 section
            4.9.2). Linux restores the window only, and the function begins anew. Default false.
    """

    KIND: ClassVar[str | None] = "cubic"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    c: float | None = None
    beta: float | None = None
    beta_ecn: float | None = None
    fast_convergence: bool | None = None
    reno_friendly: bool | None = None
    catch_up: bool | None = None
    restore: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomCc(Part):
    """An algorithm that is registered under this name by the program that runs the scenario (a Python class); from a
    guest, one of Linux.

    Attributes:
        name: Its name.
    """

    KIND: ClassVar[str | None] = "custom"
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dctcp(Part):
    """DCTCP (RFC 8257), for switches that mark early. It turns ECN on.

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        gain: Weight of a window of data in the moving average of the marked part. Default 0.0625. Above 0 and at most
            1.
        initial_alpha: The marked part that a new connection assumes: the first marks reduce the window by half of it.
            Default 1. At least 0 and at most 1.
    """

    KIND: ClassVar[str | None] = "dctcp"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    gain: float | None = None
    initial_alpha: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DelayStep(Part):
    """A step of a link's delay.

    Attributes:
        at: When the delay comes into force, from the run's start.
        delay: The propagation delay from then on, one way.
    """

    KIND: ClassVar[str | None] = None
    at: Time
    delay: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class Down(Part):
    """A time during which a link is down.

    Attributes:
        at: When it goes down.
        for_: How long it stays down.
    """

    KIND: ClassVar[str | None] = None
    at: Time
    for_: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class Droptail(Part):
    """First in, first out; arrivals at a full queue are dropped.

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
    """

    KIND: ClassVar[str | None] = "droptail"
    limit: QueueLimit | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Drr(Part):
    """Deficit round robin (Shreedhar and Varghese 1995).

    Attributes:
        limit: How much may wait in all queues together. Above 0p. Default 1000p.
        quantum: Bytes that a turn adds to what a queue may send. Without it a full packet of 1500B with the link's
            `framing`. Above 0B.
        flows: Number of queues that flows are hashed to. Default 1024. At least 1 and at most 65536.
    """

    KIND: ClassVar[str | None] = "drr"
    limit: QueueLimit | None = None
    quantum: Size | None = None
    flows: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Dualpi2(Part):
    """Dual queue coupled AQM with PI2 (RFC 9332).

    Attributes:
        limit: How much may wait in both queues together. Above 0p. Default 10000p.
        target: Delay that the classic queue is kept at. Above 0s. Default 15ms.
        update: How often the base probability is computed. 10us or more. Default 16ms.
        alpha: Weight of the delay's distance from its target, in base probability per second. Default 0.16. At least 0.
        beta: Weight of the delay's change from update to update, in base probability per second. Default 3.2. At least
            0.
        coupling: Coupling factor: the marking probability of L4S is so many times the base probability. Default 2. At
            least 1.
        step: Delay above which an L4S packet is marked by its own queue. Default 1ms.
        ramp: How far above `step` the probability to be marked comes to 1. Zero: at once. Default 0s.
        step_packets: L4S packets that must be left in the queue for its own marks. Default 0.
        classic_share: Share of the rate that classic packets have for certain. 0 to 1. Default 0.1.
        codepoints: Which packets are for the L4S queue. Default l4s.
        drop_overload: Whether L4S packets are dropped on overload. Default true.
        drop_early: Whether the coupled probabilities apply on arrival, and not when packets leave. Default false.
        protect: Whether packets of flows that build a queue are put into the classic queue (RFC 9957). Default false.
        critical_delay: Delay of the L4S queue below which no packet is turned away from it. Above 0s. Default 1ms.
        critical_score: Score from which packets of a flow are turned away at the critical delay; at twice that delay
            half of it is enough. Above 0s. Default 4ms.
        aging: Rate at which scores drain: a flow may cause so many bits of marked packets per second. Above 0bit/s.
            Default 4194.304kbit/s.
        buckets: Number of buckets for flows; there is another one for flows that find none. Default 32. At least 1 and
            at most 65536.
    """

    KIND: ClassVar[str | None] = "dualpi2"
    limit: QueueLimit | None = None
    target: Time | None = None
    update: Time | None = None
    alpha: float | None = None
    beta: float | None = None
    coupling: float | None = None
    step: Time | None = None
    ramp: Time | None = None
    step_packets: int | None = None
    classic_share: Probability | None = None
    codepoints: L4sCodepoints | None = None
    drop_overload: bool | None = None
    drop_early: bool | None = None
    protect: bool | None = None
    critical_delay: Time | None = None
    critical_score: Time | None = None
    aging: Rate | None = None
    buckets: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Dumbbell(Part):
    """Hosts "left.0", "left.1", ... on router "r1", hosts "right.0", ... on router "r2", and one bottleneck between
    them.

    Attributes:
        pairs: Hosts on each side. Default: as many as there are flows between "left" and "right" in the busier
            direction. At least 1 and at most 100000.
        bottleneck: The link from r1 to r2 and back.
        access: The links from the hosts to their router and back. Default rate: ten times the bottleneck's (1Gbit/s
            where that varies); default delay: 1ms.
        access_delays: One-way delays of the access links of pair 0, 1, ... on both sides, in turn, in place of
            `access.delay`: pairs with different RTTs.
        rtt: Base RTT of pair 0; sets the bottleneck's delay to what the access links leave of half of it. In place of
            `bottleneck.delay`, in both directions.
    """

    KIND: ClassVar[str | None] = "dumbbell"
    bottleneck: DuplexOptions | Mapping[str, Any]
    pairs: int | None = None
    access: DuplexOptions | Mapping[str, Any] | None = None
    access_delays: Sequence[Time] | None = None
    rtt: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DuplexOptions(Part):
    """A duplex link that a topology builds: the options of a `[[link]]` without its ends.

    Attributes:
        rate: Constant rate at which packets are sent. One of `rate`, `schedule`, `trace` and `radio` is needed; with a
            schedule this is the rate before its first step, and without it that step's rate holds before it, too.
        schedule: Rates that come into force at given times, in order. A packet in transmission finishes at the rate it
            began with.
        repeat: Period after which the schedule starts again; without it the last rate stays.
        trace: A mahimahi trace: a text file with one line per opportunity to send 1500 bytes, in milliseconds from the
            start, repeated for ever. The path is relative to the scenario file. With `between` both directions follow
            it, unless `reverse` has a rate or a trace of its own.
        radio: A radio in place of `rate`, `schedule` and `trace`, as a table or in short: "wifi,rate=65Mbit/s" sends in
            aggregates as Wi-Fi does. With `between` in both directions, each with draws of its own, unless `reverse`
            has a rate, a trace or a radio of its own.
        delay: Propagation delay, one way. Default 0s.
        delays: Delays that come into force at given times, in order, as when packets take another route. A packet takes
            the delay in force when it leaves; none overtakes another by that. BDPs and routes go by `delay`.
        queue: What waits in front of the link, as a table or in short: "250p" is a drop-tail queue with this limit.
            Default `"1000p"`.
        loss: Packets lost on the link after they were sent, as a table or in short: "1%" loses each with this
            probability. With `between` they are lost in both directions, unless `reverse` says otherwise. Default none.
        duplicate: Packets that arrive twice, chosen as a loss model chooses those that it loses, as a table or in
            short: "1%" copies each with this probability. A copy arrives right behind its packet and takes no time on
            this link; a packet that is lost has none. Default none.
        corrupt: Packets of which the link changes a bit, chosen as a loss model chooses those that it loses, as a table
            or in short: "1%". They arrive, and their receiver drops them, as their checksum does not fit; those of
            programs and guests really have a bit changed. Default none.
        jitter: Random delay that each packet takes in addition to `delay`, as a table or in short: "uniform,max=5ms".
            With `between` in both directions, unless `reverse` says otherwise. Default none.
        down: When the link is down: what waits or comes is lost, what is under way arrives. Default never.
        framing: Bytes that the link adds to every packet (38B for Ethernet with preamble and gap). Default: the
            scenario's `framing`.
        mtu: Largest IP packet that the link takes. Larger live packets are cut into fragments or refused with an ICMP
            error by the router in front of the link, as IP has it; simulated flows are not bound by it (their `tcp.mss`
            is). Default: no limit, and 1500B for the interfaces of live hosts.
        pfc: Priority flow control at the far end: the node there pauses the link when more than `xoff` of what came
            over it waits there. Default none.
        record: What to record of this link. Default nothing (totals and time series are always kept).
        reverse: What differs in the reverse direction. Giving `rate`, `schedule`, `trace` or `radio` here replaces all
            of them.
    """

    KIND: ClassVar[str | None] = None
    rate: Rate | None = None
    schedule: Sequence[RateStep | Mapping[str, Any]] | None = None
    repeat: Time | None = None
    trace: str | None = None
    radio: Radio | None = None
    delay: Time | None = None
    delays: Sequence[DelayStep | Mapping[str, Any]] | None = None
    queue: Queue | None = None
    loss: Loss | None = None
    duplicate: Loss | None = None
    corrupt: Loss | None = None
    jitter: Jitter | None = None
    down: Sequence[Down | Mapping[str, Any]] | None = None
    framing: Size | None = None
    mtu: Size | None = None
    pfc: Pfc | Mapping[str, Any] | None = None
    record: Sequence[LinkRecordKind] | None = None
    reverse: LinkOptions | Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EcmpRouting(Part):
    """Equal-cost multipath (RFC 2992): every node hashes the flow and takes the link that the hash says, as switches
    do. Connections of app = "arrivals" are flows of their own."""

    KIND: ClassVar[str | None] = "ecmp"


@dataclass(frozen=True, kw_only=True, slots=True)
class EveryLoss(Part):
    """Every n-th packet is lost: the n-th, the 2n-th, and so on.

    Attributes:
        n: How many packets from one loss to the next. At least 1.
    """

    KIND: ClassVar[str | None] = "every"
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialDistribution(Part):
    """Exponential.

    Attributes:
        mean: Mean.
    """

    KIND: ClassVar[str | None] = "exponential"
    mean: float | Size | Time


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialJitter(Part):
    """Exponential.

    Attributes:
        mean: Mean.
        reorder: Whether a packet may overtake the one before; otherwise it waits for it. Default false.
    """

    KIND: ClassVar[str | None] = "exponential"
    mean: Time
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FatTree(Part):
    """A three-level fat-tree of switches with k ports each (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008): k pods, each
    with k/2 edge and k/2 aggregation switches, (k/2)² core switches, and k³/4 hosts. Hosts are "host.0", "host.1", ...,
    pod by pod and edge switch by edge switch; switches "edge.P.I" and "agg.P.I" in pod P, and "core.J". Aggregation
    switch I of every pod is joined to the cores I·k/2 to (I+1)·k/2-1. Flows are spread by hash unless `routing` says
    otherwise.

    Attributes:
        k: Ports of each switch, an even number: 4 makes 16 hosts, 8 128, 16 1024. At least 2 and at most 128.
        host: The links between hosts and edge switches; forward is from the host.
        fabric: The links among switches; forward is upwards. What it does not say of rate, delay, queue, framing and
            MTU is as from an edge switch to a host.
    """

    KIND: ClassVar[str | None] = "fat-tree"
    k: int
    host: DuplexOptions | Mapping[str, Any]
    fabric: DuplexOptions | Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRouting(Part):
    """All flows between two nodes take the same route. Of routes that are equally good, it is the one whose link is
    listed first, at the first node where they part."""

    KIND: ClassVar[str | None] = "first"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed(Part):
    """A constant window: neither losses nor time-outs change it.

    Attributes:
        segments: The window; may be a fraction of a segment. Default 10 segments. Above 0.
    """

    KIND: ClassVar[str | None] = "fixed"
    segments: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow(Part):
    """Traffic from one node to another, written `[[flow]]`; `count` makes several alike. Which of the parameters apply
    depends on `app`; one that does not is refused. One end may be a host with real programs: a live host, a guest, or a
    machine behind an interface. Where that is `to`, the simulated TCP connects to a program that listens there on
    `port`, and sends to it. Where it is `from`, the simulated host `to` offers its programs a service on `port`: app is
    "discard", "echo", "source" or "http".

    Attributes:
        name: Name of the group in results and in `--set flow[NAME].cc=...`. Instances are "NAME.0", "NAME.1" and so on.
            Default: the app's name, with the flow's number where that is taken.
        from_: The node that opens the connection and sends the data, or a host group of the topology such as "left".
        to: The node that receives, or a host group of the topology such as "right".
        pattern: Which hosts of two groups send to each other. Default: "all-to-all" for arrivals, "turns" for the
            others.
        via: Nodes that the flow passes on its way, in order; acknowledgements and all else from `to` pass them the
            other way round. From node to node it takes the link between them, or the best route where there is none.
            Default: the best route, as `routing` says.
        multipath: Over several paths at the same time, as Multipath TCP: app is "bulk" or "transfer". Each subflow has
            rows of its own in the results.
        count: How many such flows, as `pattern` counts them. Default 1. At least 1 and at most 100000.
        app: What the flow sends. Default bulk.
        transport: What carries it. Default: udp for cbr, onoff and media, tcp for the others.
        port: Where one end is a host with real programs: the TCP port of the program on `to`, or of the service that
            `to` offers. At least 1 and at most 65535.
        wait: To a program: how long the flow waits at the most, from its start, until a program listens on `port`; then
            the run ends with an error. 0s does not wait. Default 30s.
        ipv6: To a live host or a guest: over IPv6. Services are there for both. Default false.
        verify: bulk and transfer between a guest and a guest, a stack or a simulated host: the receiver compares each
            byte with what was sent, and the run fails if one is wrong. Costs the guest a copy of the data. Default
            false; between stacks and simulated hosts it is always done.
        size: transfer: Bytes of each transfer. Above 0B. arrivals: Bytes of every transfer, in place of `sizes`. Above
            0B. request: Bytes of an answer. Above 0B. source: Bytes of each connection; without it, as many as the
            program takes. Above 0B. http: Bytes of every path but `/bytes/N`; without it, none. Above 0B.
        transfers: transfer: How many, one after another, each on a connection of its own; 0 goes on until the end.
            Default 1.
        pause: transfer, request: Pause between the end of one and the start of the next. Default 0s.
        rate: cbr: The rate: wire bytes of full packets for UDP, payload for TCP. Above 0bit/s. onoff: The rate while
            on: wire bytes of full packets for UDP, payload for TCP. Above 0bit/s.
        packet_size: cbr, onoff: Bytes of a UDP packet on the wire, with its 28 bytes of headers; for TCP, bytes of each
            write. 29B to 65.535kB. Default 1.5kB. media: Largest packet, from the IP header on. 100B to 9kB. Default
            1.2kB.
        message_size: poisson: Bytes of a message. Above 0B. Default 512B.
        message_rate: poisson: Mean number of messages per second. Above 0 and at most 1e+07.
        mean_on: onoff: Mean time on. Above 0s. Default 250ms.
        mean_off: onoff: Mean time off. Default 250ms.
        shape: onoff: Pareto tail index of both times. Default 1.5. Above 1.
        frame_rate: media: Frames per second. Default 30. At least 1 and at most 1000.
        min_bitrate: media: Lowest rate of the encoder. Above 0bit/s, not above `max_bitrate`. Default 150kbit/s.
        start_bitrate: media: Rate of the encoder at the start. Above 0bit/s, not below `min_bitrate`, not above
            `max_bitrate`. Default 300kbit/s.
        max_bitrate: media: Highest rate of the encoder. Above 0bit/s. Default 1.5Mbit/s.
        size_noise: media: Scale of the Laplace distribution by which frame sizes differ from their mean, as a part of
            it. Default 0.15. At least 0 and at most 1.
        key_frame_interval: media: Time from one key frame to the next; 0s: only the first frame, and those that the
            receiver asks for. Default 0s.
        key_frame_size: media: Size of a key frame, as a multiple of a mean frame; the seven frames after it are
            smaller, so that the rate is kept. Default 3.2. At least 1 and at most 6.6.
        retransmit: media: Whether packets that the reports show to be lost are sent once more. Default true.
        send_queue: media: Time in which the sender's queue may keep a packet; while one has waited for longer, no frame
            is made. Above 0s. Default 300ms.
        playout_delay: media: Shortest time from a frame's capture to its being shown: the delay that hides jitter.
            Default 0s.
        patience: media: Time that the receiver waits for what is missing of a frame once a later frame has begun to
            arrive. Then it gives the frame up, and asks for a key frame. Default 200ms.
        late: media: A frame that is shown later than this after its capture counts as late. Above 0s. Default 400ms.
        load: arrivals: Offered load: application bytes that each sender is asked to send, as a share of the rate of its
            link. Above 0, at most 1.
        sizes: arrivals: Where the sizes of transfers come from. Default web-search.
        request_size: request: Bytes of a request, which says how long it and the answer are. 16B or more. Default 100B.
        requests: request: How many, one after another; 0 goes on until the end. Default 0.
        web: web: the sessions.
        cc: TCP and media: the congestion control. Default cubic; for media, gcc.
        start: When the flow starts; a range lets each instance draw its own start. Default 0s.
        stop: When the flow stops sending. Default: the end of the run.
        tcp: TCP options of this flow, for both of its ends.
        max_window: TCP: cap on the window, in segments or bytes; short for `tcp.max_window`.
        max_rate: TCP: cap on the sending rate; short for `tcp.max_rate`.
        class_: Class in priority queues, 0 first. Default 0. At least 0 and at most 15.
        dscp: Differentiated services code point of its packets, by which queues such as CAKE and HTB tell classes of
            traffic apart. Default CS0.
        record: What to record of these flows. Default nothing (totals and time series are always kept).
    """

    KIND: ClassVar[str | None] = None
    from_: str
    to: str
    name: str | None = None
    pattern: Pattern | None = None
    via: Sequence[str] | None = None
    multipath: Multipath | Mapping[str, Any] | None = None
    count: int | None = None
    app: App | None = None
    transport: Transport | None = None
    port: int | None = None
    wait: Time | None = None
    ipv6: bool | None = None
    verify: bool | None = None
    size: Size | None = None
    transfers: int | None = None
    pause: Time | None = None
    rate: Rate | None = None
    packet_size: Size | None = None
    message_size: Size | None = None
    message_rate: float | None = None
    mean_on: Time | None = None
    mean_off: Time | None = None
    shape: float | None = None
    frame_rate: float | None = None
    min_bitrate: Rate | None = None
    start_bitrate: Rate | None = None
    max_bitrate: Rate | None = None
    size_noise: float | None = None
    key_frame_interval: Time | None = None
    key_frame_size: float | None = None
    retransmit: bool | None = None
    send_queue: Time | None = None
    playout_delay: Time | None = None
    patience: Time | None = None
    late: Time | None = None
    load: Probability | None = None
    sizes: Sizes | None = None
    request_size: Size | None = None
    requests: int | None = None
    web: Web | Mapping[str, Any] | None = None
    cc: Cc | None = None
    start: StartTime | None = None
    stop: Time | None = None
    tcp: Tcp | Mapping[str, Any] | None = None
    max_window: Window | None = None
    max_rate: Rate | None = None
    class_: int | None = None
    dscp: CodePoint | None = None
    record: Sequence[FlowRecordKind] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FourStateLoss(Part):
    """Bursts of losses in which some packets pass, and lone losses between bursts.

    Attributes:
        begin: Probability per packet between bursts that a burst begins, with a loss (netem's p13). 0 to 1.
        end: Probability after a loss in a burst that the burst ends (netem's p31). 0 to 1.
        pass_: Probability after a loss in a burst that the next packet passes and the burst goes on (netem's p32). If
            it and `end` come to more than 1, it counts first. 0 to 1. Default 0.
        lose: Probability after a packet that passed in a burst that the next one is lost (netem's p23). 0 to 1. Default
            1.
        alone: Probability per packet between bursts that it alone is lost (netem's p14). If it and `begin` come to more
            than 1, it counts first. 0 to 1. Default 0.
    """

    KIND: ClassVar[str | None] = "four-state"
    begin: Probability
    end: Probability
    pass_: Probability | None = None
    lose: Probability | None = None
    alone: Probability | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FqCodel(Part):
    """Fair queueing with CoDel in each flow's queue (RFC 8290). The limit is over all flows.

    Attributes:
        limit: How much may wait. Above 0p. Default 10240p.
        target: Acceptable standing delay; RFC 8289 has it at 5 to 10 % of `interval`. Above 0s, not above `interval`.
            Default 5ms.
        interval: How long the delay must stay above the target, about the largest RTT. Above 0s. Default 100ms.
        ecn: Whether ECN-capable packets are marked instead of dropped. Default true.
        quantum: Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`:
            with the 14B of Ethernet's header, the 1514B of RFC 8290 (section 5.2.4) and Linux. Above 0B.
        flows: Number of queues that flows are hashed to. Default 1024. At least 1 and at most 65536.
        drop_batch: Most packets that a full buffer drops at once. It drops from the head of the longest queue, up to
            half of the bytes there. Default 64. At least 1.
    """

    KIND: ClassVar[str | None] = "fq_codel"
    limit: QueueLimit | None = None
    target: Time | None = None
    interval: Time | None = None
    ecn: bool | None = None
    quantum: Size | None = None
    flows: int | None = None
    drop_batch: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FqPie(Part):
    """Fair queueing with PIE in each flow's queue (Linux). The limit is over all flows.

    Attributes:
        limit: How much may wait. Above 0p. Default 10240p.
        target: Delay that the queue is kept at (QDELAY_REF). Above 0s. Default 15ms.
        update: How often the drop probability is computed (T_UPDATE). 10us or more. Default 15ms.
        max_burst: How long a burst passes without drops (MAX_BURST). Default 150ms.
        alpha: Weight of the delay's distance from its target, in drop probability per second. Default 0.125. At least
            0.
        beta: Weight of the delay's change from update to update, in drop probability per second. Default 1.25. At least
            0.
        delay: How the delay is known. Default timestamps.
        derandomize: Whether drops are spaced, and not each drawn by itself. Default true.
        ecn: Whether ECN-capable packets are marked instead of dropped, while the probability is not above `mark_up_to`.
            Default false.
        mark_up_to: Drop probability up to which packets are marked. 0 to 1. Default 0.1.
        quantum: Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`.
            Above 0B.
        flows: Number of queues that flows are hashed to. Default 1024. At least 1 and at most 65536.
    """

    KIND: ClassVar[str | None] = "fq_pie"
    limit: QueueLimit | None = None
    target: Time | None = None
    update: Time | None = None
    max_burst: Time | None = None
    alpha: float | None = None
    beta: float | None = None
    delay: PieDelay | None = None
    derandomize: bool | None = None
    ecn: bool | None = None
    mark_up_to: Probability | None = None
    quantum: Size | None = None
    flows: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gcc(Part):
    """Google Congestion Control (draft-ietf-rmcat-gcc-02; Carlucci et al. 2016).

    Attributes:
        beta: What over-use leaves of the received rate. Default 0.85. At least 0.5 and at most 0.95.
        growth: Growth of the rate in a second, far from the rate at which over-use was found. Default 1.08. Above 1 and
            at most 2.
        threshold: The threshold of the over-use detector at the start. 6ms to 600ms. Default 12.5ms.
        threshold_up: How fast the threshold follows a larger estimate, per millisecond (K_u). With 0 here and in
            `threshold_down` it is fixed. Default 0.01. At least 0 and at most 0.1.
        threshold_down: How fast the threshold follows a smaller estimate, per millisecond (K_d). Default 0.00018. At
            least 0 and at most 0.1.
        overuse_time: How long the estimate must be above the threshold. Default 10ms.
        pacing: Rate at which packets leave, as a multiple of the target rate. Default 2.5. At least 1 and at most 10.
    """

    KIND: ClassVar[str | None] = "gcc"
    beta: float | None = None
    growth: float | None = None
    threshold: Time | None = None
    threshold_up: float | None = None
    threshold_down: float | None = None
    overuse_time: Time | None = None
    pacing: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GilbertElliottLoss(Part):
    """Two states with a loss probability each; after each packet the state may change (Gilbert 1960, Elliott 1963).

    Attributes:
        good_to_bad: Probability per packet of going from good to bad (netem's p). 0 to 1.
        bad_to_good: Probability per packet of going from bad to good (netem's r): the inverse of the mean length of a
            bad phase. 0 to 1.
        loss_good: Loss probability in the good state (netem's 1-k). 0 to 1. Default 0.
        loss_bad: Loss probability in the bad state (netem's 1-h). 0 to 1. Default 1.
    """

    KIND: ClassVar[str | None] = "gilbert-elliott"
    good_to_bad: Probability
    bad_to_good: Probability
    loss_good: Probability | None = None
    loss_bad: Probability | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Highspeed(Part):
    """HighSpeed TCP (RFC 3649).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        low_window: Window up to which it is Reno. Default 38 segments. At least 1.
        low_window_loss: Loss rate that goes with that window. Default 0.001. Above 0 and at most 1.
        high_window: A large window. Not below `low_window`. Default 83000 segments. At least 1.
        high_window_loss: Loss rate that goes with the large window. Not above `low_window_loss`. Default 0.0000001.
            Above 0 and at most 1.
        high_window_decrease: What part of the large window a loss takes. Default 0.1. Above 0 and at most 0.5.
    """

    KIND: ClassVar[str | None] = "highspeed"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    low_window: float | None = None
    low_window_loss: float | None = None
    high_window: float | None = None
    high_window_loss: float | None = None
    high_window_decrease: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Host(Part):
    """A host with options or programs of its own, written `[[host]]`. Which keys it takes depends on its `endpoint`.

    Attributes:
        name: The node's name, as links and topologies use it.
        endpoint: What the host is. Default model.
        tcp: model: TCP options of connections that end here. (A guest's kernel is set up with `cc` and `sysctl`, a live
            host's sockets by its programs.)
        address: model, live, guest, interface: Its IPv4 address. Default 10.0.0.1 for the first node that links
            mention, 10.0.0.2 for the second and so on.
        address6: model, live, guest, interface: Its IPv6 address. Default fd77:6172:7075::1 for the first node, and so
            on.
        program: live, guest: The programs that run there.
        rebind: live, guest, interface: A NAT in front of it that changes its bindings. Default: none.
        machine: guest: Its machine (one kernel), shared with all guests that name the same one. Default: a machine of
            its own with the host's name. Machines run in parallel; hosts on one machine need less memory. "auto" shares
            machines among the guests that say so and have the same kernel and settings: two, and more beyond 64 hosts
            on each.
        kernel: guest: The Linux kernel of its machine: a version or a series ("6.12": the newest that is there), the
            name of a kernel that was added with `warpline kernel`, or a file (a path with a slash, relative to the
            scenario). Guests of one machine share it. Default: the machine's own, `linux.uml`.
        cc: guest: The kernel's congestion control for its connections: "bbr", "cubic", "reno", "vegas", or any other
            that the package has as tcp_NAME.ko. Default: the kernel's default, cubic.
        sysctl: guest: Kernel settings of this host, by their sysctl(8) names.
        forwards: guest: Whether it is a router: its kernel forwards packets between its links, each of which is an
            interface with the name of the node at its other end. Packets for others are then handed to that kernel,
            whatever hosts are at their ends. Default false.
        tc: guest: Queues in front of its interfaces: commands of tc(8), without `tc`, in order. One that begins with
            `dev` means `qdisc replace dev`. The kernel's modules that they name are loaded. An ordinary guest has one
            interface, `eth0`.
        cpu_share: guest: Share of one CPU core that its machine gets, 0.001 to 1, whatever the dilation (a control
            group; not under the virtual clock, where a kernel's work takes no time). Guests of one machine share it.
            Default: no limit.
        cpu_period: guest: With `cpu_share`: how often its machine gets that share anew, in the guest's own time, 1 ms
            to 1 s. Once the share of a period is used up, the guest stands still until the next one. Under the dilated
            clock, the period of this machine is `tdf` times as long, within the kernel's limits of 1 ms and 1 s. Guests
            of one machine have the same. Default "10ms".
        tdf: guest: A time dilation factor of its machine's own, in place of the clock's: seconds of this machine for
            each second of the guest. Its clock, and all that it times, then goes at a different speed from the
            network's. Only under the dilated clock, with a fixed factor from a thousandth to a thousand times this one.
            Guests of one machine have the same. Not with `forwards`. Default: the clock's.
        tsc: guest: What its programs read with the instructions `rdtsc` and `rdtscp`. Not under the virtual clock,
            where it is "guest". Guests of one machine have the same. Default "machine".
        offloads: guest: Whether its network card has offloads: the kernel sends TCP segments of up to 64 kB, which the
            card cuts into packets of the MTU (TSO); the card computes and checks checksums; and interrupts are rarer
            (`interrupts`), so that the kernel merges the packets that have come meanwhile (GRO). Links carry and
            captures show the packets that the card makes. Such guests run several times faster. Guests of one machine
            have the same, and at most 16 can share one. Not with `forwards`. Default false.
        interrupts: guest: With `offloads`: least time between two interrupts of the network card for packets that have
            arrived (ethtool's `rx-usecs`), 0 to 100 ms. A packet that comes earlier waits. "0s" is an interrupt at each
            arrival. Only under the virtual clock. Guests of one machine have the same. Default "125us".
        memory: guest: Memory of its machine; only what is used is taken. Files that programs write are in it, too.
            Guests of one machine share it. Default: what its hosts, its flows and the buffers in `sysctl` need.
        device: interface: The interface of this machine behind which it is: an Ethernet interface, a VLAN or a veth
            that is up.
        vlan: interface: The VLAN (IEEE 802.1Q) in which it is: its frames have a tag with this number. Default: frames
            without a tag. At least 1 and at most 4094.
        addresses: interface: More machines on the same segment: their addresses, and networks.
        routes: interface: Networks behind routers on the segment.
        gateway: interface: An address that the emulator itself has on the segment, for machines that need a gateway. It
            answers pings. Default: none; a machine can use the address of any other node, too.
        gateway6: interface: As `gateway`, for IPv6.
        force: interface: Whether the interface is used even if it carries this machine's default route, is a part of a
            bridge, or this machine would answer for the same addresses. Default false.
        send_buffer: stack:smoltcp, stack:netstack, stack:object, stack:quinn, stack:sctp: Send buffer of each of the
            stack's sockets. Default: the stack's own.
        receive_buffer: stack:smoltcp, stack:netstack, stack:object, stack:quinn, stack:sctp: Receive buffer of each of
            the stack's sockets: the largest window that it can offer. Default: the stack's own.
        library: stack:object: The shared object, which exports the functions of `warpline_stack.h`; relative to the
            scenario's directory.
        congestion_controls: stack:quinn: Whose congestion controls `cc` of a flow from this host names. Default quinn.
        initial_window: stack:quinn: Initial window of quinn's congestion controls. Default: 12000B; for bbr 240000B.
    """

    KIND: ClassVar[str | None] = None
    name: str
    endpoint: Literal["model", "live", "guest", "interface", "stack:smoltcp", "stack:lwip", "stack:netstack", "stack:bsd", "stack:object", "stack:quinn", "stack:sctp"] | None = None
    tcp: Tcp | Mapping[str, Any] | None = None
    address: Ipv4Address | None = None
    address6: Ipv6Address | None = None
    program: Sequence[Program | Mapping[str, Any]] | None = None
    rebind: Rebind | Mapping[str, Any] | None = None
    machine: str | None = None
    kernel: str | None = None
    cc: str | None = None
    sysctl: Mapping[str, str] | None = None
    forwards: bool | None = None
    tc: Sequence[str] | None = None
    cpu_share: Probability | None = None
    cpu_period: Time | None = None
    tdf: float | None = None
    tsc: Tsc | None = None
    offloads: bool | None = None
    interrupts: Time | None = None
    memory: Size | None = None
    device: str | None = None
    vlan: int | None = None
    addresses: Sequence[IpNetwork] | None = None
    routes: Sequence[Route | Mapping[str, Any]] | None = None
    gateway: Ipv4Address | None = None
    gateway6: Ipv6Address | None = None
    force: bool | None = None
    send_buffer: Size | None = None
    receive_buffer: Size | None = None
    library: str | None = None
    congestion_controls: Controls | None = None
    initial_window: Size | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Htb(Part):
    """Hierarchical token buckets (Linux's `sch_htb`).

    Attributes:
        classes: The classes, a line each: "voice parent all rate 2Mbit/s ceil 10Mbit/s prio 0 dscp EF leaf fq_codel".
            Parents stand before those that borrow from them. A class with the word `default` takes the packets that no
            other class takes. If none has it, these packets are sent before all others, without a limit of rate.
            Without classes there is one queue. Default none.
    """

    KIND: ClassVar[str | None] = "htb"
    classes: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Htcp(Part):
    """H-TCP (Leith and Shorten 2004, draft-leith-tcp-htcp).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        low_speed: Time after a loss in which the window grows as Reno's. Default 1s.
        beta: What remains of the window after a loss, at least. Default 0.5. Above 0 and below 1.
        beta_max: What remains of the window after a loss, at most. Not below `beta`. Default 0.8. Above 0 and below 1.
        adaptive_backoff: Whether what remains after a loss is the smallest round trip divided by the largest, within
            `beta` and `beta_max`. If not, it is always `beta`. Default true.
        bandwidth_switch: Whether `beta` remains after a loss if the throughput has changed by more than a fifth since
            the loss before. Default true.
        rtt_scaling: Whether flows with a round trip of less than 100ms grow more slowly, and those with a longer one
            faster, so that they share. Default true.
    """

    KIND: ClassVar[str | None] = "htcp"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    low_speed: Time | None = None
    beta: float | None = None
    beta_max: float | None = None
    adaptive_backoff: bool | None = None
    bandwidth_switch: bool | None = None
    rtt_scaling: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hybla(Part):
    """TCP Hybla (Caini and Firrincieli 2004).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        reference: Round trip whose growth a connection with a longer one has (RTT0). Above 0s. Default 25ms.
        max_window: Largest window: without a threshold, a slow start over a long path has no other end before the first
            news of a loss. Default 65535 segments. At least 2.
    """

    KIND: ClassVar[str | None] = "hybla"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    reference: Time | None = None
    max_window: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Illinois(Part):
    """TCP-Illinois (Liu, Basar and Srikant 2006).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        alpha_min: Growth per round trip with the longest queue. Default 0.3 segments. Above 0.
        alpha_max: Growth per round trip without a queue. Not below `alpha_min`. Default 10 segments. Above 0.
        beta_min: What part of the window a loss takes where the queue was short. Default 0.125. Above 0 and below 1.
        beta_max: What part of the window a loss takes where the queue was long. Not below `beta_min`. Default 0.5.
            Above 0 and below 1.
        low_window: Window below which it is Reno. Default 15 segments.
        theta: Rounds with hardly a queue until the window grows at its fastest again. Default 5. At least 1.
    """

    KIND: ClassVar[str | None] = "illinois"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    alpha_min: float | None = None
    alpha_max: float | None = None
    beta_min: float | None = None
    beta_max: float | None = None
    low_window: int | None = None
    theta: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafSpine(Part):
    """Hosts on leaf switches, and every leaf switch joined to every spine switch. Hosts are "host.0", "host.1", ...,
    leaf by leaf; switches "leaf.I" and "spine.J". Flows are spread by hash unless `routing` says otherwise.

    Attributes:
        leaves: Leaf switches. At least 1 and at most 10000.
        spines: Spine switches. At least 1 and at most 10000.
        hosts: Hosts on each leaf switch. At least 1 and at most 10000.
        host: The links between hosts and leaf switches; forward is from the host.
        fabric: The links between leaf and spine switches; forward is upwards. What it does not say of rate, delay,
            queue, framing and MTU is as from a leaf switch to a host.
        oversubscription: How many times more the hosts of a leaf switch can send than it can pass on: sets the rate of
            `fabric`, in place of `fabric.rate`.
    """

    KIND: ClassVar[str | None] = "leaf-spine"
    leaves: int
    spines: int
    hosts: int
    host: DuplexOptions | Mapping[str, Any]
    fabric: DuplexOptions | Mapping[str, Any] | None = None
    oversubscription: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledbat(Part):
    """LEDBAT (RFC 6817).

    Attributes:
        target: TARGET: queueing delay to keep; RFC 6817 allows 100ms at most. Above 0s. Default 100ms.
        gain: GAIN: segments per round trip at an empty queue; RFC 6817 allows 1 at most. Default 1. Above 0.
        allowed_increase: ALLOWED_INCREASE: segments by which the window may exceed what is in flight. Default 1
            segment. At least 0.
        floor: MIN_CWND: smallest window, but for time-outs. Default 2 segments. Above 0.
        base_history: BASE_HISTORY: one-minute minima of the base delay that are kept. Default 10. At least 1.
        current_filter: CURRENT_FILTER: samples of the current delay. Default 4. At least 1.
        slow_start: Whether the connection starts in slow start, until the first loss or until the delay reaches the
            target. Default false.
    """

    KIND: ClassVar[str | None] = "ledbat"
    target: Time | None = None
    gain: float | None = None
    allowed_increase: float | None = None
    floor: float | None = None
    base_history: int | None = None
    current_filter: int | None = None
    slow_start: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LedbatPlusPlus(Part):
    """LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).

    Attributes:
        target: TARGET: queueing delay to keep. Above 0s. Default 60ms.
        decrease: Constant of the multiplicative decrease. Default 1. Above 0.
        max_gain_divisor: Largest divisor of the gain. Default 16. At least 1.
        base_history: One-minute minima of the base delay that are kept. Default 10. At least 1.
        current_filter: Samples of the current delay. Default 4. At least 1.
        slow_down: Whether the window is slowed down periodically, to measure the base delay. Default true.
    """

    KIND: ClassVar[str | None] = "ledbat++"
    target: Time | None = None
    decrease: float | None = None
    max_gain_divisor: int | None = None
    base_history: int | None = None
    current_filter: int | None = None
    slow_down: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeoRadio(Part):
    """A satellite in low earth orbit, as Starlink's: rate and delay change when a terminal gets another satellite.

    Attributes:
        min_rate: Least rate of an interval. Above 0bit/s, not above `max_rate`.
        max_rate: Largest rate of an interval.
        min_delay: Least one-way delay of an interval, in addition to the link's `delay`. Not above `max_delay`. Default
            10ms.
        max_delay: Largest one-way delay of an interval, in addition to the link's `delay`. The defaults give round
            trips of 20 to 50 ms. Default 25ms.
        interval: How long an interval is. 1ms or more. Default 15s.
        first: When the first interval ends. Starlink's intervals end at the seconds 12, 27, 42 and 57 of a minute: with
            12s, the run begins at the start of a minute. Default 12s.
        spike: By how much the delay is longer at both ends of an interval. Default 74ms.
        after: How long the delay is longer by `spike` at the beginning of an interval. Default 140ms.
        before: How long the delay is longer by `spike` at the end of an interval. Default 75ms.
    """

    KIND: ClassVar[str | None] = "leo"
    min_rate: Rate
    max_rate: Rate
    min_delay: Time | None = None
    max_delay: Time | None = None
    interval: Time | None = None
    first: Time | None = None
    spike: Time | None = None
    after: Time | None = None
    before: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lia(Part):
    """LIA (RFC 6356): the subflows of a multipath connection take together what one TCP would; without `multipath` it
    is Reno.

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
    """

    KIND: ClassVar[str | None] = "lia"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link(Part):
    """A link between two nodes, written `[[link]]`. Nodes exist by being named. `between` makes a duplex link, two one-
    way links named "a>b" and "b>a". Every option, `loss`, `jitter` and `trace` too, holds in both directions, each with
    draws of its own, unless `reverse` says otherwise: `loss = "1%", reverse = { loss = "none" }` loses on the way there
    only. `from` and `to` make a single one.

    Attributes:
        name: Name for `--set link[NAME].rate=...`; default: the two nodes with a dash, "r1-r2".
        between: The two ends of a duplex link. The first is where the forward direction starts. The options hold in
            both directions; what differs on the way back is in `reverse`.
        from_: Where a one-way link starts; goes with `to`, not with `between`.
        to: Where a one-way link ends.
        rate: Constant rate at which packets are sent. One of `rate`, `schedule`, `trace` and `radio` is needed; with a
            schedule this is the rate before its first step, and without it that step's rate holds before it, too.
        schedule: Rates that come into force at given times, in order. A packet in transmission finishes at the rate it
            began with.
        repeat: Period after which the schedule starts again; without it the last rate stays.
        trace: A mahimahi trace: a text file with one line per opportunity to send 1500 bytes, in milliseconds from the
            start, repeated for ever. The path is relative to the scenario file. With `between` both directions follow
            it, unless `reverse` has a rate or a trace of its own.
        radio: A radio in place of `rate`, `schedule` and `trace`, as a table or in short: "wifi,rate=65Mbit/s" sends in
            aggregates as Wi-Fi does. With `between` in both directions, each with draws of its own, unless `reverse`
            has a rate, a trace or a radio of its own.
        delay: Propagation delay, one way. Default 0s.
        delays: Delays that come into force at given times, in order, as when packets take another route. A packet takes
            the delay in force when it leaves; none overtakes another by that. BDPs and routes go by `delay`.
        queue: What waits in front of the link, as a table or in short: "250p" is a drop-tail queue with this limit.
            Default `"1000p"`.
        loss: Packets lost on the link after they were sent, as a table or in short: "1%" loses each with this
            probability. With `between` they are lost in both directions, unless `reverse` says otherwise. Default none.
        duplicate: Packets that arrive twice, chosen as a loss model chooses those that it loses, as a table or in
            short: "1%" copies each with this probability. A copy arrives right behind its packet and takes no time on
            this link; a packet that is lost has none. Default none.
        corrupt: Packets of which the link changes a bit, chosen as a loss model chooses those that it loses, as a table
            or in short: "1%". They arrive, and their receiver drops them, as their checksum does not fit; those of
            programs and guests really have a bit changed. Default none.
        jitter: Random delay that each packet takes in addition to `delay`, as a table or in short: "uniform,max=5ms".
            With `between` in both directions, unless `reverse` says otherwise. Default none.
        down: When the link is down: what waits or comes is lost, what is under way arrives. Default never.
        framing: Bytes that the link adds to every packet (38B for Ethernet with preamble and gap). Default: the
            scenario's `framing`.
        mtu: Largest IP packet that the link takes. Larger live packets are cut into fragments or refused with an ICMP
            error by the router in front of the link, as IP has it; simulated flows are not bound by it (their `tcp.mss`
            is). Default: no limit, and 1500B for the interfaces of live hosts.
        pfc: Priority flow control at the far end: the node there pauses the link when more than `xoff` of what came
            over it waits there. Default none.
        record: What to record of this link. Default nothing (totals and time series are always kept).
        reverse: What differs in the reverse direction of a duplex link. Giving `rate`, `schedule`, `trace` or `radio`
            here replaces all of them.
    """

    KIND: ClassVar[str | None] = None
    name: str | None = None
    between: Sequence[str] | None = None
    from_: str | None = None
    to: str | None = None
    rate: Rate | None = None
    schedule: Sequence[RateStep | Mapping[str, Any]] | None = None
    repeat: Time | None = None
    trace: str | None = None
    radio: Radio | None = None
    delay: Time | None = None
    delays: Sequence[DelayStep | Mapping[str, Any]] | None = None
    queue: Queue | None = None
    loss: Loss | None = None
    duplicate: Loss | None = None
    corrupt: Loss | None = None
    jitter: Jitter | None = None
    down: Sequence[Down | Mapping[str, Any]] | None = None
    framing: Size | None = None
    mtu: Size | None = None
    pfc: Pfc | Mapping[str, Any] | None = None
    record: Sequence[LinkRecordKind] | None = None
    reverse: LinkOptions | Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkOptions(Part):
    """What one direction of a link is like.

    Attributes:
        rate: Constant rate at which packets are sent. One of `rate`, `schedule`, `trace` and `radio` is needed; with a
            schedule this is the rate before its first step, and without it that step's rate holds before it, too.
        schedule: Rates that come into force at given times, in order. A packet in transmission finishes at the rate it
            began with.
        repeat: Period after which the schedule starts again; without it the last rate stays.
        trace: A mahimahi trace: a text file with one line per opportunity to send 1500 bytes, in milliseconds from the
            start, repeated for ever. The path is relative to the scenario file. With `between` both directions follow
            it, unless `reverse` has a rate or a trace of its own.
        radio: A radio in place of `rate`, `schedule` and `trace`, as a table or in short: "wifi,rate=65Mbit/s" sends in
            aggregates as Wi-Fi does. With `between` in both directions, each with draws of its own, unless `reverse`
            has a rate, a trace or a radio of its own.
        delay: Propagation delay, one way. Default 0s.
        delays: Delays that come into force at given times, in order, as when packets take another route. A packet takes
            the delay in force when it leaves; none overtakes another by that. BDPs and routes go by `delay`.
        queue: What waits in front of the link, as a table or in short: "250p" is a drop-tail queue with this limit.
            Default `"1000p"`.
        loss: Packets lost on the link after they were sent, as a table or in short: "1%" loses each with this
            probability. With `between` they are lost in both directions, unless `reverse` says otherwise. Default none.
        duplicate: Packets that arrive twice, chosen as a loss model chooses those that it loses, as a table or in
            short: "1%" copies each with this probability. A copy arrives right behind its packet and takes no time on
            this link; a packet that is lost has none. Default none.
        corrupt: Packets of which the link changes a bit, chosen as a loss model chooses those that it loses, as a table
            or in short: "1%". They arrive, and their receiver drops them, as their checksum does not fit; those of
            programs and guests really have a bit changed. Default none.
        jitter: Random delay that each packet takes in addition to `delay`, as a table or in short: "uniform,max=5ms".
            With `between` in both directions, unless `reverse` says otherwise. Default none.
        down: When the link is down: what waits or comes is lost, what is under way arrives. Default never.
        framing: Bytes that the link adds to every packet (38B for Ethernet with preamble and gap). Default: the
            scenario's `framing`.
        mtu: Largest IP packet that the link takes. Larger live packets are cut into fragments or refused with an ICMP
            error by the router in front of the link, as IP has it; simulated flows are not bound by it (their `tcp.mss`
            is). Default: no limit, and 1500B for the interfaces of live hosts.
        pfc: Priority flow control at the far end: the node there pauses the link when more than `xoff` of what came
            over it waits there. Default none.
        record: What to record of this link. Default nothing (totals and time series are always kept).
    """

    KIND: ClassVar[str | None] = None
    rate: Rate | None = None
    schedule: Sequence[RateStep | Mapping[str, Any]] | None = None
    repeat: Time | None = None
    trace: str | None = None
    radio: Radio | None = None
    delay: Time | None = None
    delays: Sequence[DelayStep | Mapping[str, Any]] | None = None
    queue: Queue | None = None
    loss: Loss | None = None
    duplicate: Loss | None = None
    corrupt: Loss | None = None
    jitter: Jitter | None = None
    down: Sequence[Down | Mapping[str, Any]] | None = None
    framing: Size | None = None
    mtu: Size | None = None
    pfc: Pfc | Mapping[str, Any] | None = None
    record: Sequence[LinkRecordKind] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListLoss(Part):
    """Listed packets are lost, counted from 1 in the order in which they are sent on the link.

    Attributes:
        packets: Numbers of the packets lost.
    """

    KIND: ClassVar[str | None] = "list"
    packets: Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class LognormalDistribution(Part):
    """Log-normal.

    Attributes:
        median: Median.
        sigma: Standard deviation of the logarithm, above 0.
        max: Larger values are drawn again. Default none.
    """

    KIND: ClassVar[str | None] = "lognormal"
    median: float | Size | Time
    sigma: float
    max: float | Size | Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lp(Part):
    """TCP-LP (Kuzmanovic and Knightly 2003).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        threshold: Part of the way from the smallest to the largest one-way delay at which congestion begins. Default
            0.15. At least 0 and at most 1.
        smoothing: Weight of a new sample in the smoothed delay. Default 0.125. At least 0 and at most 1.
        inference: Length of the phase without growth after an indication of congestion. Default 3 round trips. Above 0.
        variant: Whose rules. Default paper.
    """

    KIND: ClassVar[str | None] = "lp"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    threshold: float | None = None
    smoothing: float | None = None
    inference: float | None = None
    variant: LpVariant | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Multipath(Part):
    """A TCP flow over several paths at the same time, as Multipath TCP has it (RFC 8684).

    Attributes:
        paths: A subflow for each entry: the nodes that it passes, in order, as for `via`. An empty entry is the best
            route, or by `routing` one of several as good. One to eight entries. The first subflow opens the connection;
            the others join when that is open.
        scheduler: Which subflow carries the next piece of data. Default minrtt.
    """

    KIND: ClassVar[str | None] = None
    paths: Sequence[Sequence[str]]
    scheduler: Scheduler | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Nice(Part):
    """TCP Nice (Venkataramani, Kokku and Dahlin 2002).

    Attributes:
        variant: Whose rules: the defaults of all that follows. Default revised.
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        threshold: Where between minRTT (0) and maxRTT (1) a packet counts as late. Default 0.2. At least 0 and at most
            1.
        fraction: Part of a round's packets that must be late for the window to be reduced. Default 0.4; 0.5 with
            `paper`. At least 0 and at most 1.
        decrease: What remains of the window when it is reduced for delay. Default 0.7; 0.5 with `paper`. Above 0 and
            below 1.
        floor: Smallest window; 1 is the paper's "W >= 1". Default 1/48 segments. Above 0.
        burst: Segments sent together while the window is below two segments. Default 2 segments. At least 1.
        alpha: Vegas's alpha: segments in the queue below which the window grows. Default 1 segment. At least 0.
        beta: Vegas's beta: segments in the queue above which it shrinks. Not below `alpha`. Default 3 segments. At
            least 0.
        gamma: Vegas's gamma: segments in the queue above which slow start ends. Default 1 segment. At least 0.
        growth: Segments by which the window grows in a round trip where the queue is empty. Default 1.5 segments; 1
            with `paper`. Above 0.
        target: Queueing delay at which the window stays as it is, as a part of the delay from which packets are late.
            With less delay the window grows, the less the nearer the delay is to this. With more it shrinks, by
            `growth` at most in a round trip. 0: it grows at any delay. Default 0.5; 0 with `paper`. At least 0 and at
            most 1.
        start: maxRTT after the first sample, in minRTTs. Default 2. At least 1.
        most_delay: Delay above minRTT at which a packet is late, whatever the threshold says. Above 0s. Default 10ms;
            unlimited with `paper`.
        own_packets: How many of the flow's own packets, the delayed one among them, are taken off a delay at most
            before it is judged: each with its time at the narrowest link. Default 4 packets; 0 with `paper`. At least
            0.
        initial_window: Largest initial window, and largest window after idle time. Default 2 segments. Above 0.
        max_of_rounds: Whether maxRTT is the largest of the rounds' smallest RTTs, which delayed ACKs do not raise, and
            not of all. Default true; false with `paper`.
        prompt: Whether the window is reduced as soon as enough packets were late, not at the round's end. Default true;
            false with `paper`.
        base_window: How long minRTT and maxRTT are remembered at least; twice that at most. 0s for ever. Default 600s;
            0s with `paper`.
    """

    KIND: ClassVar[str | None] = "nice"
    variant: NiceVariant | None = None
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    threshold: float | None = None
    fraction: float | None = None
    decrease: float | None = None
    floor: float | None = None
    burst: int | None = None
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    growth: float | None = None
    target: float | None = None
    start: float | None = None
    most_delay: Time | None = None
    own_packets: float | None = None
    initial_window: float | None = None
    max_of_rounds: bool | None = None
    prompt: bool | None = None
    base_window: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoJitter(Part):
    """No jitter; for `reverse`, to switch off what the forward direction has."""

    KIND: ClassVar[str | None] = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class NoLoss(Part):
    """No loss; for `reverse`, to switch off what the forward direction has."""

    KIND: ClassVar[str | None] = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalJitter(Part):
    """Normal, cut off at zero.

    Attributes:
        mean: Mean before the cut at zero.
        stddev: Standard deviation before the cut.
        reorder: Whether a packet may overtake the one before; otherwise it waits for it. Default false.
    """

    KIND: ClassVar[str | None] = "normal"
    mean: Time
    stddev: Time
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Nv(Part):
    """TCP-NV (Brakmo 2010).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        pad: Segments in the queue above which the path counts as congested. Default 10 segments. At least 0.
        pad_buffer: How many segments below `pad` the window stops growing. Default 2 segments. At least 0.
        decrease: By what part of its excess the window shrinks on congestion. Default 0.3. Above 0 and at most 1.
        beta: What remains of the window after a loss. Default 0.8. Above 0 and below 1.
        smoothing: Weight of a new RTT in the smoothed one. Default 0.5. Above 0 and at most 1.
        reset_period: How often the search for the smallest RTT begins anew, a quarter less or more at random. The
            smallest RTT of one period still counts in the next. Above 0s. Default 5s.
        recover_growth: Decisions to grow that double growth which time-outs have halved; 0 for never. Default 8.
        raise_growth: Decisions to grow that double growth above Reno's; 0 for never. Default 0.
        base_rtt: The RTT of the path where that is known, from which on there is congestion; 0s for unknown. Default
            0s.
    """

    KIND: ClassVar[str | None] = "nv"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    pad: float | None = None
    pad_buffer: float | None = None
    decrease: float | None = None
    beta: float | None = None
    smoothing: float | None = None
    reset_period: Time | None = None
    recover_growth: int | None = None
    raise_growth: int | None = None
    base_rtt: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Olia(Part):
    """OLIA (Khalili et al. 2012): the subflows of a multipath connection take together what one TCP would, and leave
    congested paths; without `multipath` it is Reno.

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
    """

    KIND: ClassVar[str | None] = "olia"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OvertakingJitter(Part):
    """All packets are delayed but some, which overtake (netem's `reorder`).

    Attributes:
        delay: Delay of all packets but those that overtake. How far these get ahead depends on how many packets come in
            that time.
        probability: Probability that a packet overtakes. 0 to 1.
        correlation: Correlation with the candidate before. 0 to 1. Default 0.
        form: What the correlation means. Default outcomes.
        gap: How many packets there are from one that overtakes to the next candidate: 5 for every fifth packet, if the
            probability is 1. Default 1. At least 1.
        reorder: Whether the packets that are not delayed overtake the others; otherwise they wait for them. Default
            true.
    """

    KIND: ClassVar[str | None] = "overtaking"
    delay: Time
    probability: Probability
    correlation: Probability | None = None
    form: Correlation | None = None
    gap: int | None = None
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParetoDistribution(Part):
    """Pareto (heavy-tailed) from its smallest value, mean*(shape-1)/shape, up.

    Attributes:
        mean: Mean, before it is cut off at `max`.
        shape: Tail index, above 1.
        max: Larger values are drawn again. Default none.
    """

    KIND: ClassVar[str | None] = "pareto"
    mean: float | Size | Time
    shape: float
    max: float | Size | Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParetoJitter(Part):
    """Pareto (heavy-tailed): no delay is below mean (shape - 1) / shape.

    Attributes:
        mean: Mean.
        shape: Tail index; the variance is infinite up to 2. Default 1.5. Above 1.
        reorder: Whether a packet may overtake the one before; otherwise it waits for it. Default false.
    """

    KIND: ClassVar[str | None] = "pareto"
    mean: Time
    shape: float | None = None
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParkingLot(Part):
    """Routers "r0" to "rN" in a row with N equal hops; hosts "left.i" on the first router and "right.i" on the last,
    whose flows cross all hops; hosts "in.i" on router i and "out.i" on router i+1, whose flows cross one hop.

    Attributes:
        hops: Number of hops. At least 1 and at most 1000.
        pairs: Hosts on each of the two ends. Default: as many as there are flows between "left" and "right" in the
            busier direction. At least 1 and at most 100000.
        hop: The link of each hop.
        access: The links from the hosts to their router and back. Default rate: ten times the hop's (1Gbit/s where that
            varies); default delay: 1ms.
    """

    KIND: ClassVar[str | None] = "parking-lot"
    hops: int
    hop: DuplexOptions | Mapping[str, Any]
    pairs: int | None = None
    access: DuplexOptions | Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pfc(Part):
    """When the node at the far end of a link pauses it (priority flow control, IEEE 802.1Qbb). Sizes are from the IP
    header on. Where the link's queue is of the kind "priority", each of its classes (the first eight; further ones with
    the eighth) is counted and paused by itself; otherwise all packets pause together.

    Attributes:
        xoff: The link is paused when so much of what came over it is at the node.
        xon: It goes on when so little is left. Default: half of `xoff`.
        headroom: How much more than `xoff` may be there; what comes then is dropped. Default: what comes until a pause
            takes hold, twice the link's delay at its rate and three full packets.
    """

    KIND: ClassVar[str | None] = None
    xoff: Size
    xon: Size | None = None
    headroom: Size | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pie(Part):
    """Proportional integral controller enhanced (RFC 8033).

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
        target: Delay that the queue is kept at (QDELAY_REF). Above 0s. Default 15ms.
        update: How often the drop probability is computed (T_UPDATE). 10us or more. Default 15ms.
        max_burst: How long a burst passes without drops (MAX_BURST). Default 150ms.
        alpha: Weight of the delay's distance from its target, in drop probability per second. Default 0.125. At least
            0.
        beta: Weight of the delay's change from update to update, in drop probability per second. Default 1.25. At least
            0.
        delay: How the delay is known. Default timestamps.
        derandomize: Whether drops are spaced, and not each drawn by itself. Default true.
        ecn: Whether ECN-capable packets are marked instead of dropped, while the probability is not above `mark_up_to`.
            Default false.
        mark_up_to: Drop probability up to which packets are marked. 0 to 1. Default 0.1.
    """

    KIND: ClassVar[str | None] = "pie"
    limit: QueueLimit | None = None
    target: Time | None = None
    update: Time | None = None
    max_burst: Time | None = None
    alpha: float | None = None
    beta: float | None = None
    delay: PieDelay | None = None
    derandomize: bool | None = None
    ecn: bool | None = None
    mark_up_to: Probability | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Policer(Part):
    """Policer: drops what exceeds a rate and a burst (RFC 2697), in front of a FIFO.

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
        rate: Rate that is allowed, the link's `framing` included. Without it the link's own, as it changes; the burst
            is by its mean over the run. Above 0bit/s.
        burst: Bytes that may come at once. Without it what the rate gives in 100 ms, and at least a full packet. Above
            0B.
        ecn: Whether ECN-capable packets are marked instead of dropped. Default false.
    """

    KIND: ClassVar[str | None] = "policer"
    limit: QueueLimit | None = None
    rate: Rate | None = None
    burst: Size | None = None
    ecn: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prague(Part):
    """Prague (draft-briscoe-iccrg-prague-congestion-control), for paths with L4S (RFC 9330). It turns Accurate ECN on.

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        gain: Weight of a round trip in the moving average of the marked part. Default 0.0625. Above 0 and at most 1.
        virtual_rtt: Flows with a shorter round trip grow as fast as with this one; 0s for none. Default 25ms.
        rtt_transition: How many round trips after slow start `virtual_rtt` begins to hold. Default 4.
        quantum: Data that is sent at one moment, as a time at the pacing rate: one segment at least. Default 244us.
    """

    KIND: ClassVar[str | None] = "prague"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    gain: float | None = None
    virtual_rtt: Time | None = None
    rtt_transition: int | None = None
    quantum: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Priority(Part):
    """Strict priority by the flows' `class`, 0 first. An arrival at a full queue pushes out the lowest class's last
    packets.

    Attributes:
        limit: How much may wait in all classes together. Above 0p. Default 1000p.
        classes: Number of classes. Flows of a higher class than there is use the last. Default 2. At least 2 and at
            most 16.
        per_class: Whether each class has `limit` for itself, and none pushes out another's packets. Default false.
    """

    KIND: ClassVar[str | None] = "priority"
    limit: QueueLimit | None = None
    classes: int | None = None
    per_class: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Program(Part):
    """A real program on a live host or a guest, written `[[host.program]]` below its host. It runs in the directory of
    the scenario file. (A guest sees the files of this machine; what it writes stays in the guest.) Its output goes into
    the run directory, to `programs/HOST.NAME.stdout` and `.stderr`, where NAME is its name or, without one, its number
    on the host, from 0. In its command, `{NAME}` stands for the IPv4 address of the node NAME and `{NAME:6}` for its
    IPv6 address. The environment has them too: `WARPLINE_ADDR_NAME` (capitals, digits and `_`) and
    `WARPLINE_ADDR6_NAME` for every node, and `WARPLINE_HOST`, `WARPLINE_ADDRESS` and `WARPLINE_ADDRESS6` for its own
    host. `WARPLINE_PROGRAM` is the path of `warpline` itself, for commands of the shell.

    Attributes:
        name: Its name in messages, file names, `after` and `until`; unique on the host. Default: its number on the
            host, from 0.
        command: The program and its arguments as a list of words, or one string for the shell (`sh -c`). As the first
            of the words, `warpline` is this program, wherever it is installed.
        start: When it starts, unless it still waits for other programs (`after`). Default 0s.
        ready: How to tell that it is ready, for programs that wait for it: a port that listens (`ready = 8080`), a text
            that it prints (`ready = "prints listening"`), a file (`ready = "file /tmp/ready"`), or a command that exits
            with code 0 (`ready = "command curl -s http://localhost/"`).
        after: Programs that must be `ready` before it starts, by name ("server") or by host and name ("b.server").
            Default: every program that has `ready` and starts no later; none if this program has a `ready` itself.
        environment: Environment variables, in addition to those of `warpline` itself.
        expect: How it must end: with this exit code before the end of the run; in "any" way; or "running", for a
            server, which is stopped at the end of the run. The run fails if it ends otherwise. Default 0.
        stop: The signal that stops it if it still runs at the end of the run; SIGKILL follows a second later. Default
            TERM.
        collect: guest: files to copy into the run directory at the end. All other files of a guest are lost then.
    """

    KIND: ClassVar[str | None] = None
    command: ProgramCommand
    name: str | None = None
    start: Time | None = None
    ready: Readiness | None = None
    after: Sequence[str] | None = None
    environment: Mapping[str, str] | None = None
    expect: Expect | None = None
    stop: StopSignal | None = None
    collect: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RateStep(Part):
    """A step of a rate schedule.

    Attributes:
        at: When the rate comes into force, from the run's start (or from the period's).
        rate: The rate from then on; 0 stops the link, packets wait.
    """

    KIND: ClassVar[str | None] = None
    at: Time
    rate: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready(Part):
    """How to tell that a program is ready: one of `port`, `prints`, `file` and `command`.

    Attributes:
        port: A port of the host on which TCP listens or a UDP socket is open. At least 1 and at most 65535.
        prints: A text that the program prints, to its standard output or error.
        file: A file that exists. If it existed before the program started, it must change.
        command: A command that exits with code 0, written like a program's `command`. It is run every 100 ms on the
            program's host, in the program's directory.
        within: How long it may take from the program's start, in the run's time. If it takes longer, the run ends with
            an error. Default 30s.
    """

    KIND: ClassVar[str | None] = None
    port: int | None = None
    prints: str | None = None
    file: str | None = None
    command: ProgramCommand | None = None
    within: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebind(Part):
    """A NAT in front of a host that changes its bindings at times, as one that has forgotten them does. It is for UDP
    (QUIC), and leaves everything else alone. A UDP port of the host is bound to a port of the NAT when the host first
    sends from it, at first to the same one. At each change, all get other ports, as soon as the host sends something.
    What then still comes for an earlier one, or for one without a binding, is lost. It does not translate fragments
    after the first, and reports of errors (ICMP).

    Attributes:
        first: When it first changes them.
        every: How long after each change the next one comes, at least 1 ms. Default: there is only one.
        addresses: The NAT's addresses: at each change, it takes another of them, except those of nodes; of a large
            network, the first 65,536 count. At first it has the host's own. Default: only ports change.
    """

    KIND: ClassVar[str | None] = None
    first: Time
    every: Time | None = None
    addresses: IpNetwork | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Red(Part):
    """Random early detection (Floyd and Jacobson 1993). Thresholds count as `limit` does: in packets, or else in bytes.

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
        min_threshold: Average queue below which nothing is dropped early. Without it a quarter of `limit`.
        max_threshold: Average queue at which the drop probability reaches `max_probability`. Without it three quarters
            of `limit`.
        max_probability: Drop probability at `max_threshold`, before spacing. Above 0, at most 1. Default 0.1.
        weight: Weight of the newest sample in the average. Above 0, at most 1. Default 0.002.
        gentle: Whether the probability rises on to 1 at twice `max_threshold` instead of jumping to it. Default true.
        ecn: Whether ECN-capable packets are marked instead of dropped early. Default false.
        mean_packet: Mean packet size: the time unit of the average's decay over idle time, and the scale of drops where
            bytes count. Above 0B. Default 1kB.
        hard_drop: Whether ECN-capable packets are dropped, too, when the average is beyond the range. Default true.
        adaptive: Whether `max_probability` changes over time so that the average comes to the middle of the range
            (Adaptive RED). Default false.
        adapt_interval: How often `max_probability` changes, with `adaptive`. 10us or more. Default 500ms.
    """

    KIND: ClassVar[str | None] = "red"
    limit: QueueLimit | None = None
    min_threshold: QueueLimit | None = None
    max_threshold: QueueLimit | None = None
    max_probability: Probability | None = None
    weight: Probability | None = None
    gentle: bool | None = None
    ecn: bool | None = None
    mean_packet: Size | None = None
    hard_drop: bool | None = None
    adaptive: bool | None = None
    adapt_interval: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reno(Part):
    """Reno's window: slow start, one segment per round trip, half on loss (RFC 5681).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        beta: What remains of the window after a loss. Default 0.5. Above 0 and below 1.
        beta_ecn: What remains of the window after an ECN echo; RFC 8511 recommends 0.8. Default 0.5. Above 0 and below
            1.
        reduce_from: What a reduction starts from. Default window.
    """

    KIND: ClassVar[str | None] = "reno"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    beta: float | None = None
    beta_ecn: float | None = None
    reduce_from: ReduceFrom | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationPlan(Part):
    """Several runs of one scenario, written `[replications]`: results get means and 95 % confidence intervals.

    Attributes:
        runs: Number of runs, with the seeds `seed`, `seed` + 1 and so on. At least 1 and at most 100000.
        seeds: The seeds, instead of `runs`.
    """

    KIND: ClassVar[str | None] = None
    runs: int | None = None
    seeds: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Route(Part):
    """A network that is reached through a router.

    Attributes:
        to: The network.
        via: The router, a machine on the segment.
    """

    KIND: ClassVar[str | None] = None
    to: IpNetwork
    via: IpAddress


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalable(Part):
    """Scalable TCP (Kelly 2003).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        increase: Segments of growth per segment acknowledged (the paper's a), where that is more than Reno's growth:
            above 100 segments with the default. Default 0.01 segments. Above 0 and at most 1.
        decrease: What part of the window a loss takes (the paper's b). Default 0.125. Above 0 and below 1.
        legacy_window: Window up to which a loss takes half of it: 16 segments in the paper, none in Linux. Default 0
            segments. At least 0.
    """

    KIND: ClassVar[str | None] = "scalable"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    increase: float | None = None
    decrease: float | None = None
    legacy_window: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scream(Part):
    """SCReAM, version 2 (draft-johansson-ccwg-rfc8298bis-screamv2).

    Attributes:
        ecn: What its packets say of explicit congestion notification, and so what a mark means. Default none.
        target: The lowest target of the queueing delay. 5ms to 400ms. Default 60ms.
        compete: Whether the target delay grows where flows compete that fill the queue. Default true.
        beta_loss: What a loss leaves of the window. Default 0.7. At least 0.3 and at most 1.
        beta_ecn: What a mark leaves of the window without L4S. Default 0.8. At least 0.3 and at most 1.
        pacing: Rate at which packets leave, as a multiple of the target rate. Default 1.5. At least 1 and at most 10.
    """

    KIND: ClassVar[str | None] = "scream"
    ecn: ScreamEcn | None = None
    target: Time | None = None
    compete: bool | None = None
    beta_loss: float | None = None
    beta_ecn: float | None = None
    pacing: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sfq(Part):
    """Stochastic fairness queueing (McKenney 1990, Linux).

    Attributes:
        limit: How much may wait in all queues together. Above 0p. Default 127p.
        depth: Packets that may wait in one queue. Default 127. At least 1.
        quantum: Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`.
            Above 0B.
        divisor: Number of queues that flows are hashed to. Default 1024. At least 1 and at most 65536.
        flows: Queues that may have packets at a time. Default 128. At least 1.
        perturb: How often the hash changes. Zero: never. Default 0s.
        head_drop: Whether the oldest packet of a queue is dropped, and not the youngest. Default false.
    """

    KIND: ClassVar[str | None] = "sfq"
    limit: QueueLimit | None = None
    depth: int | None = None
    quantum: Size | None = None
    divisor: int | None = None
    flows: int | None = None
    perturb: Time | None = None
    head_drop: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared(Part):
    """Part of a buffer that all links of a switch share, by a dynamic threshold (Choudhury and Hahne 1998).

    Attributes:
        buffer: The buffer of the node at which the link begins. All its links with such a queue share it, and have to
            say the same. Above 0B. Default 4MB.
        alpha: The queue takes packets while it holds less than this times what is free of the buffer. Default 1. Above
            0.
        threshold: How much must wait in this queue for an arriving packet to be marked, or dropped if it is not ECN-
            capable. Without it none is.
    """

    KIND: ClassVar[str | None] = "shared"
    buffer: Size | None = None
    alpha: float | None = None
    threshold: QueueLimit | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SprayRouting(Part):
    """Packet spraying: a sender takes another route for each packet, in turn.

    Attributes:
        routes: Routes between two hosts, at most; where there are more, each flow draws its own. Default 64. At least 1
            and at most 1024.
    """

    KIND: ClassVar[str | None] = "spray"
    routes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Star(Part):
    """Hosts "leaf.0", "leaf.1", ... around the node "hub".

    Attributes:
        leaves: Number of leaves. At least 1 and at most 100000.
        leaf: Each link, from the leaf to the hub and back.
    """

    KIND: ClassVar[str | None] = "star"
    leaves: int
    leaf: DuplexOptions | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step(Part):
    """Marking above a threshold of what waits, as for DCTCP (Alizadeh et al. 2010).

    Attributes:
        limit: How much may wait. Above 0p. Default 1000p.
        threshold: How much must wait for an arriving packet to be marked (K). Links are simulated fastest where it is
            in packets. Default 65p.
    """

    KIND: ClassVar[str | None] = "step"
    limit: QueueLimit | None = None
    threshold: QueueLimit | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tbf(Part):
    """Token bucket filter (Linux): shapes to a rate and a burst.

    Attributes:
        limit: How much may wait; a time and a BDP are counted at `rate`. Above 0p. Default 1000p.
        rate: Rate, the link's `framing` included. Without it the link's own, as it changes; burst and limit are by its
            mean over the run. Above 0bit/s.
        burst: Bytes that may leave at once. Without it what the rate gives in 10 ms, and at least a full packet. Above
            0B.
        peak: Rate within a burst. Without it the link's own. Above 0bit/s.
        peak_burst: Bytes that may leave at once at the peak rate. Without it a full packet of 1500B with the link's
            `framing`. Above 0B.
    """

    KIND: ClassVar[str | None] = "tbf"
    limit: QueueLimit | None = None
    rate: Rate | None = None
    burst: Size | None = None
    peak: Rate | None = None
    peak_burst: Size | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tcp(Part):
    """Options of a TCP endpoint. An option that is not given comes from the host, then the scenario's `[tcp]`, then the
    preset "modern". A preset sets many options. Options given beside it override it, and everything given at an inner
    level (flow) overrides the outer levels (host, scenario), also a preset. A flow's options hold for both of its ends;
    a host's options hold for the connections that end there.

    Attributes:
        preset: A set of values for the options; an option given beside it overrides it. Default modern.
        recovery: How the sender recovers from loss. Default sack; tahoe with `1988-tahoe`; reno with `1990-reno`;
            newreno with `1999-newreno`.
        sack: Selective acknowledgements (RFC 2018). Default true; false with `1988-tahoe`, `1990-reno`, `1999-newreno`.
        dsack: Duplicate SACKs from the receiver (RFC 2883). Default true; false with `1988-tahoe`, `1990-reno`,
            `1999-newreno`, `ns2-sack1`.
        timestamps: Timestamps (RFC 7323); they take 12 bytes of every segment. Default true; false with `1988-tahoe`,
            `1990-reno`, `1999-newreno`, `ns2-sack1`.
        window_scaling: Window scaling (RFC 7323); without it no window can exceed 65535 bytes. Default true; false with
            `1988-tahoe`, `1990-reno`.
        ecn: Explicit congestion notification (RFC 3168). A congestion control that needs it, as DCTCP does, has it in
            any case. Default false.
        ecn_feedback: How this end tells the other of marks that it receives. Default auto.
        accecn_option: Whether acknowledgements say how many bytes came marked, by the AccECN option (RFC 9768 section
            3.2.3), where marked packets are counted. Default true.
        rack: Time-based loss detection (RACK, RFC 8985 section 6); needs `sack`. Default true; false with `1988-tahoe`,
            `1990-reno`, `1999-newreno`, `ns2-sack1`.
        tlp: Tail loss probes (RFC 8985 section 7); needs `sack`. Default true; false with `1988-tahoe`, `1990-reno`,
            `1999-newreno`, `ns2-sack1`.
        prr: Proportional rate reduction in recovery (RFC 6937, RFC 9937). Default true; false with `1988-tahoe`,
            `1990-reno`, `1999-newreno`, `ns2-sack1`.
        limited_transmit: Send new data on the first two duplicate ACKs (RFC 3042). Default true; false with
            `1988-tahoe`, `1990-reno`.
        impatient: Without SACK: only the first partial ACK of a recovery restarts the retransmission timer, so that
            many losses end in a time-out and slow start (RFC 6582 section 4). Otherwise each does, as in Linux, and a
            loss is repaired in each round trip, however many there are. Default true.
        undo: Undo the effects of spurious retransmissions, found by timestamps (Eifel, RFC 3522, RFC 4015), DSACK (RFC
            3708) or what is acknowledged after a time-out (F-RTO, RFC 5682). Default true; false with `1988-tahoe`,
            `1990-reno`, `1999-newreno`, `ns2-sack1`.
        nagle: Nagle's algorithm (RFC 896, in Minshall's form as in Linux): at most one small segment in flight. Default
            true; false with `ns2-sack1`.
        pacing: Spread a window's segments over the RTT. A window below one segment is always paced, and so is an
            algorithm that gives a pacing rate. Default false.
        pacing_gain: Pacing rate in congestion avoidance, as a multiple of the window per RTT. Default 1.2. Above 0.
        pacing_gain_slow_start: Pacing rate in slow start, as a multiple of the window per RTT. Default 2. Above 0.
        small_window_burst: Segments sent together while the window is smaller than this, 1 or 2. TCP Nice sends pairs,
            so that a receiver that delays acknowledgements answers at once. Default 1. At least 1 and at most 2.
        cwnd_validation: Whether the window may grow only while it limits sending (RFC 7661 in Linux's form). Default
            true; false with `1988-tahoe`, `1990-reno`, `1999-newreno`, `ns2-sack1`.
        delayed_ack: How long an acknowledgement may be delayed (RFC 5681 section 4.2); 0s acknowledges every segment at
            once. Default 40ms; 200ms with `1988-tahoe`, `1990-reno`, `1999-newreno`; 100ms with `ns2-sack1`.
        delayed_ack_segments: Number of full segments after which an acknowledgement is sent at once. Default 2. At
            least 1 and at most 64.
        quick_acks: How many segments at the start of a connection are acknowledged one by one (Linux quick ACKs,
            TCP_MAX_QUICKACKS). No more than half of the receive buffer holds; two if that is less than one. Default 16;
            0 with `1988-tahoe`, `1990-reno`, `1999-newreno`, `ns2-sack1`.
        min_rto: Smallest retransmission time-out (1s in RFC 6298, 200ms in Linux). Not above `max_rto`. Default 200ms;
            1s with `1988-tahoe`, `1990-reno`, `1999-newreno`.
        max_rto: Largest retransmission time-out, and largest back-off. Above 0s, not below `initial_rto`. Default 120s;
            64s with `1988-tahoe`, `1990-reno`, `1999-newreno`; 60s with `ns2-sack1`.
        initial_rto: Retransmission time-out before the first RTT sample (RFC 6298 section 2.1). Above 0s, not above
            `max_rto`. Default 1s; 6s with `1988-tahoe`, `1990-reno`; 3s with `1999-newreno`, `ns2-sack1`.
        tick: Granularity of the retransmission timer: time-outs are rounded up to a multiple of it; 0s for none. RACK's
            timer waits for 2 ms more and the end of a tick, as in Linux. Default 0s; 500ms with `1988-tahoe`,
            `1990-reno`; 10ms with `ns2-sack1`.
        heartbeat: Whether time-outs end with a beat of a clock of period `tick` (BSD's slow timer), so that a time-out
            of n ticks ends with the n-th beat. Each flow's clock has a random phase. Without it, a time-out lasts whole
            ticks from when it was set. Default false.
        rto_variance: How the variance of the RTT enters the retransmission time-out. Default linux; rfc6298 with
            `1988-tahoe`, `1990-reno`, `1999-newreno`, `ns2-sack1`.
        syn_retries: Retransmissions of a SYN or SYN/ACK before the connection fails. Default 6.
        data_retries: Consecutive time-outs without progress before the connection fails. Default 15.
        initial_window: Initial congestion window, in segments or bytes (RFC 6928: ten segments). Above 0p. Default 10p;
            1p with `1988-tahoe`, `1990-reno`; 2p with `1999-newreno`, `ns2-sack1`.
        initial_ssthresh: Initial slow-start threshold. Without it slow start lasts until the first loss. Above 0p.
            Default none; 65.535kB with `1988-tahoe`, `1990-reno`.
        saved_cwnd: Bytes that an earlier connection on the same path had delivered in a round trip: this one jumps to
            half of it (Careful Resume, RFC 9959). Only with `saved_rtt`, and for a congestion control that goes by a
            window. Above 0p.
        saved_rtt: Smallest round-trip time of the earlier connection. If that of this connection is at most half as
            long, or more than ten times as long, the path is another, and `saved_cwnd` is not used. Above 0s.
        receive_buffer: Receive buffer: the largest window that is advertised, rounded down to the window scale. No
            16-bit window scaled by 14 is larger than 1073725440 bytes (RFC 7323). 1B to 1073725.44kB. Default 32MiB;
            65535B with `1988-tahoe`, `1990-reno`; 1GB with `ns2-sack1`.
        receive_ssthresh: Window that is advertised at first (Linux rcv_ssthresh: 65535 bytes). Each segment that
            arrives opens it by two full ones, up to `receive_buffer`, and until then all are acknowledged one by one.
            Without it the whole buffer is advertised at once. Above 0B.
        receive_autotuning: Whether the receive buffer grows with the transfer, from `receive_ssthresh` to
            `receive_buffer`, so that the window opens as far as the sender needs it (Linux tcp_moderate_rcvbuf).
            Without it, the buffer has its full size from the start. Default false.
        rledbat: Whether this end, as a receiver, keeps the sender from filling the path's queue, by the window that it
            advertises (rLEDBAT, RFC 9840), and by which rule; needs `timestamps`. Default no.
        misbehaviour: How this end, as a receiver, breaks the rules so that the sender sends faster: to try senders
            against it. Default none.
        send_buffer: Send buffer: how much the application may have written that is not yet acknowledged. Without it
            there is no bound. Above 0B. Default none; 65535B with `1988-tahoe`, `1990-reno`.
        mss: Maximum segment size as announced in the SYN: the payload of a segment without options. A full packet has
            40 bytes more; timestamps take 12 bytes of the payload (RFC 6691). 64B to 65.495kB. Default 1460B.
        idle_restart: Whether the window restarts from the initial one after an idle RTO (RFC 5681 section 4.1). Default
            true; false with `ns2-sack1`.
        dupack_threshold: Duplicate ACKs that start fast retransmit (RFC 5681 section 3.2). Default 3. At least 1 and at
            most 1000.
        max_reordering: How much reordering the sender learns to expect at most, in segments (Linux tcp_max_reordering).
            Without RACK, fast retransmit takes as many duplicate ACKs as a segment was seen to come late by, in place
            of `dupack_threshold`. With SACK, once that number is above `dupack_threshold`, the window grows with each
            segment that arrives, in order or not. With 0, the sender learns nothing. Default 300; 0 with `1988-tahoe`,
            `1990-reno`, `1999-newreno`, `ns2-sack1`. At least 0 and at most 1000.
        max_window: Upper bound of what the congestion window allows to be on its way, in segments or bytes. At the
            bound, the window no longer grows. Without it there is none. Above 0p.
        max_rate: Upper bound of the sending rate in bytes on the wire, enforced by pacing. Without it there is none.
            Above 0bit/s.
    """

    KIND: ClassVar[str | None] = None
    preset: TcpPreset | None = None
    recovery: Recovery | None = None
    sack: bool | None = None
    dsack: bool | None = None
    timestamps: bool | None = None
    window_scaling: bool | None = None
    ecn: bool | None = None
    ecn_feedback: EcnFeedback | None = None
    accecn_option: bool | None = None
    rack: bool | None = None
    tlp: bool | None = None
    prr: bool | None = None
    limited_transmit: bool | None = None
    impatient: bool | None = None
    undo: bool | None = None
    nagle: bool | None = None
    pacing: bool | None = None
    pacing_gain: float | None = None
    pacing_gain_slow_start: float | None = None
    small_window_burst: int | None = None
    cwnd_validation: bool | None = None
    delayed_ack: Time | None = None
    delayed_ack_segments: int | None = None
    quick_acks: int | None = None
    min_rto: Time | None = None
    max_rto: Time | None = None
    initial_rto: Time | None = None
    tick: Time | None = None
    heartbeat: bool | None = None
    rto_variance: RtoVariance | None = None
    syn_retries: int | None = None
    data_retries: int | None = None
    initial_window: Window | None = None
    initial_ssthresh: Window | None = None
    saved_cwnd: Window | None = None
    saved_rtt: Time | None = None
    receive_buffer: Size | None = None
    receive_ssthresh: Size | None = None
    receive_autotuning: bool | None = None
    rledbat: Rledbat | None = None
    misbehaviour: Misbehaviour | None = None
    send_buffer: Size | None = None
    mss: Size | None = None
    idle_restart: bool | None = None
    dupack_threshold: int | None = None
    max_reordering: int | None = None
    max_window: Window | None = None
    max_rate: Rate | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJitter(Part):
    """The further delay that a file says, which changes over time.

    Attributes:
        file: The file, relative to the scenario file: lines `time,delay` (seconds from the run's start, and
            milliseconds) below that heading, or a file of the data set LENS.
        column: Which delay of a LENS file. Default downlink.
        end: What happens after its end. Default repeat.
        reorder: Whether a packet may overtake the one before; otherwise it waits for it. Default false.
    """

    KIND: ClassVar[str | None] = "trace"
    file: str
    column: TraceColumn | None = None
    end: TraceEnd | None = None
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceLoss(Part):
    """The packets that a file says are lost.

    Attributes:
        file: The file, relative to the scenario file: a line for each packet with 0 or 1 (lost), or lines `packet,lost`
            (numbers from 1) or `time,lost` (seconds from the run's start) below that heading, or a file of the data set
            LENS.
        column: Which losses of a LENS file. Default downlink.
        end: What happens after its end. Default repeat.
    """

    KIND: ClassVar[str | None] = "trace"
    file: str
    column: TraceColumn | None = None
    end: TraceEnd | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UniformDistribution(Part):
    """Uniform between two values.

    Attributes:
        min: The smallest.
        max: The largest.
    """

    KIND: ClassVar[str | None] = "uniform"
    min: float | Size | Time
    max: float | Size | Time


@dataclass(frozen=True, kw_only=True, slots=True)
class UniformJitter(Part):
    """Uniform between two delays.

    Attributes:
        min: Smallest extra delay. Not above `max`. Default 0s.
        max: Largest extra delay.
        reorder: Whether a packet may overtake the one before; otherwise it waits for it. Default false.
    """

    KIND: ClassVar[str | None] = "uniform"
    max: Time
    min: Time | None = None
    reorder: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Vegas(Part):
    """TCP Vegas (Brakmo and Peterson 1995).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        alpha: Segments in the queue below which the window grows. Default 2 segments. At least 0.
        beta: Segments in the queue above which it shrinks. Not below `alpha`. Default 4 segments. At least 0.
        gamma: Segments in the queue above which slow start ends. Default 1 segment. At least 0.
        min_samples: RTT samples that a round needs to be judged; where it has fewer, the window grows as Reno's.
            Default 3. At least 1.
        alternate_slow_start: Whether slow start doubles the window only every other round trip, as in the paper; Linux
            does not. Default false.
        estimate: How the segments in the queue are counted. Default linux.
        decrease: What remains of the window after a loss that was no time-out; 0.75 in the paper, half in Linux.
            Default 0.5. Above 0 and below 1.
    """

    KIND: ClassVar[str | None] = "vegas"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    min_samples: int | None = None
    alternate_slow_start: bool | None = None
    estimate: VegasEstimate | None = None
    decrease: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Veno(Part):
    """TCP Veno (Fu and Liew 2003).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        beta: Segments in the queue from which on the path counts as congested. Default 3 segments. At least 0.
        random_loss: What remains of the window after a loss on a path that is not congested. Default 0.8. Above 0 and
            below 1.
    """

    KIND: ClassVar[str | None] = "veno"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    beta: float | None = None
    random_loss: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Web(Part):
    """Web sessions, from a proxy's log or from distributions. A session opens pages one after another with pauses to
    think; a page is a number of objects, fetched over a few connections at once, each object on a connection of its
    own.

    Attributes:
        access_log: A Squid access.log in the native format: each entry is a transfer of its size that starts at its
            time, counted from the log's first. The path is relative to the scenario file. Excludes the distributions
            below.
        session_rate: New sessions per second (a Poisson process). Default 1. Above 0.
        pages: Pages in a session. Default exponential, mean 5.
        objects: Objects in a page, at least one. Default Pareto, mean 8, shape 1.5.
        object_size: Bytes in an object, at least one. Default Pareto, mean 12kB, shape 1.2, at most 10MB.
        think_time: Pause between two pages of a session. Default exponential, mean 5s.
        connections: Connections that a session uses at once. Default 6. At least 1 and at most 1000.
    """

    KIND: ClassVar[str | None] = None
    access_log: str | None = None
    session_rate: float | None = None
    pages: Distribution | None = None
    objects: Distribution | None = None
    object_size: Distribution | None = None
    think_time: Distribution | None = None
    connections: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Westwood(Part):
    """Westwood+ (Grieco and Mascolo 2004).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        min_sample: Shortest time that a bandwidth sample spans, where the round trip is shorter. Above 0s. Default
            50ms.
        smoothing: Weight of the past in each of the two filters. Default 0.875. At least 0 and below 1.
        tick: Tick of the clock that times are measured in, as the kernel measures in jiffies: 10ms with HZ=100. 0s is
            exact. Default 0s.
    """

    KIND: ClassVar[str | None] = "westwood"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    min_sample: Time | None = None
    smoothing: float | None = None
    tick: Time | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WifiRadio(Part):
    """Wi-Fi that sends packets in aggregates (802.11n).

    Attributes:
        rate: Rate of the radio (PHY): 65Mbit/s for one stream at 20 MHz, 144.4Mbit/s for two with a short guard
            interval. Above 0bit/s.
        frames: Most packets in an aggregate. Default 64. At least 1 and at most 64.
        airtime: How long the data of an aggregate may take. A packet is added if 1500 bytes more would still fit; there
            is always one. The default is what a legacy header can announce. At most 10ms. Default 5.484ms.
        streams: Spatial streams: each makes the preamble longer. Default 2. At least 1 and at most 4.
        error: Part of the packets that are not received. 0 to 1. Default 0.
        retries: How often a packet is sent again before it is given up, and counts as lost. Default 7. At least 0 and
            at most 255.
    """

    KIND: ClassVar[str | None] = "wifi"
    rate: Rate
    frames: int | None = None
    airtime: Time | None = None
    streams: int | None = None
    error: Probability | None = None
    retries: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Yeah(Part):
    """YeAH-TCP (Baiocchi, Castellani and Vacirca 2007).

    Attributes:
        counting: What an acknowledgement counts for when the window grows. Default bytes.
        limit: Most segments that one acknowledgement adds in slow start (RFC 3465's L: 1 is RFC 5681, 2 is RFC 3465); 0
            for no limit, as in Linux. After a time-out a limit is 1. Default 0.
        hystart: What ends slow start before a loss does. Default no.
        alpha: Segments in the queue up to which it is fast. Default 80 segments. At least 0.
        max_delay: Queueing delay up to which it is fast, as a part of the base RTT (1 / phi). Default 0.125. At least
            0.
        drain: What part of the window is drained in a round, at most (2^-epsilon). Default 0.5. At least 0 and below 1.
        decrease: What part of the window a loss takes, at least (2^-delta). Default 0.125. Above 0 and at most 0.5.
        rho: Rounds of slow mode in a row after which a loss takes half. Default 16.
        zeta: Rounds of fast mode after which the estimate of Reno's window is forgotten. Default 50.
    """

    KIND: ClassVar[str | None] = "yeah"
    counting: AckCounting | None = None
    limit: int | None = None
    hystart: Hystart | None = None
    alpha: float | None = None
    max_delay: float | None = None
    drain: float | None = None
    decrease: float | None = None
    rho: int | None = None
    zeta: int | None = None


Time: TypeAlias = str | timedelta
Until: TypeAlias = str | Sequence[str]
Size: TypeAlias = str
ClockMode: TypeAlias = Literal["virtual", "real", "dilated"]
Tdf: TypeAlias = str | int | float
TcpPreset: TypeAlias = Literal["modern", "1988-tahoe", "1990-reno", "1999-newreno", "ns2-sack1"]
Recovery: TypeAlias = Literal["tahoe", "reno", "newreno", "sack"]
EcnFeedback: TypeAlias = Literal["auto", "rfc3168", "dctcp", "accecn"]
RtoVariance: TypeAlias = Literal["rfc6298", "linux"]
Window: TypeAlias = str | int | float
Rledbat: TypeAlias = Literal["no", "ledbat", "ledbat++"]
Misbehaviour: TypeAlias = Literal["none", "ack-division", "duplicate-acks", "optimistic-acks", "hidden-marks"]
Rate: TypeAlias = str
Probability: TypeAlias = float | str
Radio: TypeAlias = WifiRadio | LeoRadio | CellularRadio | str | Mapping[str, Any]
QueueLimit: TypeAlias = str | timedelta
PieDelay: TypeAlias = Literal["timestamps", "departure-rate"]
L4sCodepoints: TypeAlias = Literal["l4s", "any-ect"]
CakeAtm: TypeAlias = Literal["noatm", "atm", "ptm"]
CakeDiffserv: TypeAlias = Literal["besteffort", "precedence", "diffserv8", "diffserv4", "diffserv3"]
CakeFlowMode: TypeAlias = (
    Literal["flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate"]
)
CakeAckFilter: TypeAlias = Literal["off", "on", "aggressive"]
Queue: TypeAlias = (
    Droptail
    | Priority
    | Red
    | Codel
    | FqCodel
    | Pie
    | FqPie
    | Drr
    | Sfq
    | Tbf
    | Policer
    | Step
    | Dualpi2
    | Cake
    | Htb
    | Shared
    | str
    | Mapping[str, Any]
)
Correlation: TypeAlias = Literal["outcomes", "netem"]
TraceColumn: TypeAlias = Literal["uplink", "downlink", "rtt"]
TraceEnd: TypeAlias = Literal["repeat", "hold"]
Loss: TypeAlias = (
    NoLoss
    | BernoulliLoss
    | EveryLoss
    | ListLoss
    | GilbertElliottLoss
    | CorrelatedLoss
    | FourStateLoss
    | TraceLoss
    | str
    | Mapping[str, Any]
)
Jitter: TypeAlias = (
    NoJitter
    | UniformJitter
    | NormalJitter
    | ExponentialJitter
    | ParetoJitter
    | OvertakingJitter
    | TraceJitter
    | str
    | Mapping[str, Any]
)
LinkRecordKind: TypeAlias = Literal["packets", "pcap", "queue"]
Topology: TypeAlias = Dumbbell | ParkingLot | Chain | Star | FatTree | LeafSpine | Clos | Mapping[str, Any]
Routing: TypeAlias = FirstRouting | EcmpRouting | SprayRouting | str | Mapping[str, Any]
Ipv4Address: TypeAlias = str
Ipv6Address: TypeAlias = str
ProgramCommand: TypeAlias = str | Sequence[str]
Readiness: TypeAlias = int | str | Ready | Mapping[str, Any]
Expect: TypeAlias = int | str
StopSignal: TypeAlias = Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"]
IpNetwork: TypeAlias = str
Tsc: TypeAlias = Literal["guest", "machine"]
IpAddress: TypeAlias = str
Controls: TypeAlias = Literal["quinn", "warpline"]
Pattern: TypeAlias = Literal["turns", "permutation", "all-to-all", "incast", "random"]
Scheduler: TypeAlias = Literal["minrtt", "roundrobin", "redundant"]
App: TypeAlias = (
    Literal["bulk", "transfer", "cbr", "poisson", "onoff", "media", "cap", "treno", "arrivals", "web", "request", "discard", "echo", "source", "http"]
)
Transport: TypeAlias = Literal["tcp", "udp"]
Sizes: TypeAlias = Literal["web-search", "data-mining"]
Distribution: TypeAlias = (
    ConstantDistribution
    | UniformDistribution
    | ExponentialDistribution
    | ParetoDistribution
    | LognormalDistribution
    | Mapping[str, Any]
)
AckCounting: TypeAlias = Literal["bytes", "acks"]
Hystart: TypeAlias = Literal["no", "linux", "cdg", "rfc9406", "search"]
ReduceFrom: TypeAlias = Literal["window", "flight"]
VegasEstimate: TypeAlias = Literal["linux", "exact", "paper"]
LpVariant: TypeAlias = Literal["paper", "linux"]
NiceVariant: TypeAlias = Literal["revised", "paper"]
ScreamEcn: TypeAlias = Literal["none", "classic", "l4s"]
CcKind: TypeAlias = (
    Reno
    | Cubic
    | Vegas
    | Bic
    | Htcp
    | Westwood
    | Highspeed
    | Scalable
    | Illinois
    | Veno
    | Yeah
    | Hybla
    | Cdg
    | Nv
    | Compound
    | Ledbat
    | LedbatPlusPlus
    | Lp
    | Nice
    | Bbr
    | Bbr3
    | Dctcp
    | Prague
    | Fixed
    | Lia
    | Olia
    | Gcc
    | Scream
    | CustomCc
    | Mapping[str, Any]
)
Cc: TypeAlias = (
    Literal["reno", "cubic", "vegas", "bic", "htcp", "westwood", "highspeed", "scalable", "illinois", "veno", "yeah", "hybla", "cdg", "nv", "compound", "ledbat", "ledbat++", "lp", "nice", "bbr", "bbr3", "dctcp", "prague", "fixed", "lia", "olia", "gcc", "scream"]
    | str
    | CcKind
)
StartTime: TypeAlias = str | timedelta
CodePoint: TypeAlias = str | int
FlowRecordKind: TypeAlias = Literal["tcp", "qlog", "latency"]

# Keys of a scenario.
SCENARIO_KEYS: tuple[str, ...] = (
    "name",
    "description",
    "duration",
    "until",
    "expect",
    "warmup",
    "seed",
    "sample_interval",
    "framing",
    "fast_forward",
    "clock",
    "replications",
    "tcp",
    "topology",
    "routing",
    "link",
    "change",
    "host",
    "flow",
)

__all__ = [
    "AckCounting",
    "App",
    "Bbr",
    "Bbr3",
    "BernoulliLoss",
    "Bic",
    "Cake",
    "CakeAckFilter",
    "CakeAtm",
    "CakeDiffserv",
    "CakeFlowMode",
    "Cc",
    "CcKind",
    "Cdg",
    "CellularRadio",
    "Chain",
    "Change",
    "Clock",
    "ClockMode",
    "Clos",
    "CodePoint",
    "Codel",
    "Compound",
    "ConstantDistribution",
    "Controls",
    "CorrelatedLoss",
    "Correlation",
    "Cubic",
    "CustomCc",
    "Dctcp",
    "DelayStep",
    "Distribution",
    "Down",
    "Droptail",
    "Drr",
    "Dualpi2",
    "Dumbbell",
    "DuplexOptions",
    "EcmpRouting",
    "EcnFeedback",
    "EveryLoss",
    "Expect",
    "ExponentialDistribution",
    "ExponentialJitter",
    "FatTree",
    "FirstRouting",
    "Fixed",
    "Flow",
    "FlowRecordKind",
    "FourStateLoss",
    "FqCodel",
    "FqPie",
    "Gcc",
    "GilbertElliottLoss",
    "Highspeed",
    "Host",
    "Htb",
    "Htcp",
    "Hybla",
    "Hystart",
    "Illinois",
    "IpAddress",
    "IpNetwork",
    "Ipv4Address",
    "Ipv6Address",
    "Jitter",
    "L4sCodepoints",
    "LeafSpine",
    "Ledbat",
    "LedbatPlusPlus",
    "LeoRadio",
    "Lia",
    "Link",
    "LinkOptions",
    "LinkRecordKind",
    "ListLoss",
    "LognormalDistribution",
    "Loss",
    "Lp",
    "LpVariant",
    "Misbehaviour",
    "Multipath",
    "Nice",
    "NiceVariant",
    "NoJitter",
    "NoLoss",
    "NormalJitter",
    "Nv",
    "Olia",
    "OvertakingJitter",
    "ParetoDistribution",
    "ParetoJitter",
    "ParkingLot",
    "Pattern",
    "Pfc",
    "Pie",
    "PieDelay",
    "Policer",
    "Prague",
    "Priority",
    "Probability",
    "Program",
    "ProgramCommand",
    "Queue",
    "QueueLimit",
    "Radio",
    "Rate",
    "RateStep",
    "Readiness",
    "Ready",
    "Rebind",
    "Recovery",
    "Red",
    "ReduceFrom",
    "Reno",
    "ReplicationPlan",
    "Rledbat",
    "Route",
    "Routing",
    "RtoVariance",
    "Scalable",
    "Scheduler",
    "Scream",
    "ScreamEcn",
    "Sfq",
    "Shared",
    "Size",
    "Sizes",
    "SprayRouting",
    "Star",
    "StartTime",
    "Step",
    "StopSignal",
    "Tbf",
    "Tcp",
    "TcpPreset",
    "Tdf",
    "Time",
    "Topology",
    "TraceColumn",
    "TraceEnd",
    "TraceJitter",
    "TraceLoss",
    "Transport",
    "Tsc",
    "UniformDistribution",
    "UniformJitter",
    "Until",
    "Vegas",
    "VegasEstimate",
    "Veno",
    "Web",
    "Westwood",
    "WifiRadio",
    "Window",
    "Yeah",
]
