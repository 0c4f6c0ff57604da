//! ns-2's scenarios as Warpline scenarios: readable TOML with comments, one file per case.
//!
//! ns-2 counts some things differently: in its drop-tail queue of limit q, q - 1 packets wait besides the one in transmission; its
//! senders have no FIN; its timestamps take 10 bytes instead of 12 (both make 1500 bytes on the wire).

use std::fmt::Write;

use super::cases::{Agent, Case, Setting};

/// The scenario of a case as TOML text; none for an agent that Warpline does not have.
pub fn scenario(case: &Case) -> Option<String> {
    let tcp = tcp(case.agent)?;
    let title = case.name();
    Some(match case.setting {
        Setting::Fig1 { mean_delay_ms, duration_s, queue } => {
            fig1(&title, case.agent, &tcp, mean_delay_ms, duration_s, queue)
        }
        Setting::Fig6 { hops, forward, reverse, duration_s, delayed_ack } => {
            let delayed = if delayed_ack { "" } else { ", delayed_ack = \"0s\"" };
            fig6(
                &title,
                case.agent,
                &format!("{tcp}{delayed}"),
                delayed,
                (hops, forward, reverse),
                duration_s,
            )
        }
        Setting::Fig7 { loss, rate, duration_s, one_way_ms, bandwidth_mbps } => {
            fig7(&title, case.agent, &tcp, loss, rate, duration_s, one_way_ms, bandwidth_mbps)
        }
    })
}

/// The options that make Warpline's TCP behave like the agent, in addition to the preset.
fn tcp(agent: Agent) -> Option<String> {
    Some(match agent {
        Agent::Tahoe => format!("{CLASSIC}, recovery = \"tahoe\", sack = false"),
        Agent::Reno => format!("{CLASSIC}, recovery = \"reno\", sack = false"),
        Agent::Newreno | Agent::Vegas => format!("{CLASSIC}, recovery = \"newreno\", sack = false"),
        Agent::Sack1 => CLASSIC.to_owned(),
        Agent::LinuxReno | Agent::LinuxCubic => LINUX.to_owned(),
        Agent::Fack => return None,
    })
}

/// ns-2's one-way agents: RFC 2988 timer of 10 ms ticks, limited transmit (`singledup_`), no window validation.
const CLASSIC: &str = "preset = \"ns2-sack1\"";
/// The Linux agents: timestamps, the kernel's timer, and a scoreboard that takes a segment for lost when one four above it
/// has arrived.
const LINUX: &str = "preset = \"ns2-sack1\", timestamps = true, \
                     rto_variance = \"linux\", tick = \"0s\", initial_window = \"3p\", dupack_threshold = 4";

/// The congestion control. ns-2's own agents count acknowledgements; its Linux agents count bytes in congestion avoidance
/// (`sysctl_tcp_abc` is 1 there).
fn cc(agent: Agent) -> &'static str {
    match agent {
        Agent::Vegas => {
            "{ kind = \"vegas\", alpha = 1, beta = 3, gamma = 1, counting = \"acks\", alternate_slow_start = true, \
             estimate = \"paper\", decrease = 0.75 }"
        }
        Agent::LinuxReno => "{ kind = \"reno\", counting = \"bytes\" }",
        Agent::LinuxCubic => "{ kind = \"cubic\", hystart = \"no\" }",
        _ => "{ kind = \"reno\", counting = \"acks\" }",
    }
}

fn head(title: &str, about: &str, duration_s: f64) -> String {
    let name: String =
        title.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("# {title}\n# {about}\nname = \"{name}\"\nduration = \"{duration_s}s\"\nseed = 1\n")
}

fn fig1(title: &str, agent: Agent, tcp: &str, mean_delay_ms: f64, duration_s: f64, queue: u32) -> String {
    let mut text =
        head(title, "src -- r1 -- r2 -- dst; the last hop delays each data packet at random.", duration_s);
    let jitter = if mean_delay_ms > 0.0 {
        format!(
            "jitter = {{ kind = \"exponential\", mean = \"{mean_delay_ms}ms\", reorder = true }}\n\
             reverse = {{ jitter = {{ kind = \"none\" }} }}\n"
        )
    } else {
        String::new()
    };
    let _ = write!(
        text,
        r#"
[[link]]
between = ["src", "r1"]
rate = "100Mbit/s"
delay = "1ms"
queue = {{ kind = "droptail", limit = "9999p" }}

# ns-2's limit of {queue} lets {waiting} wait.
[[link]]
between = ["r1", "r2"]
rate = "4Mbit/s"
delay = "48ms"
queue = {{ kind = "droptail", limit = "{waiting}p" }}
reverse = {{ queue = {{ kind = "droptail", limit = "999p" }} }}

[[link]]
between = ["r2", "dst"]
rate = "100Mbit/s"
delay = "1ms"
queue = {{ kind = "droptail", limit = "9999p" }}
{jitter}
[[flow]]
name = "measured"
from = "src"
to = "dst"
cc = {cc}
start = "0s..100ms"
tcp = {{ {tcp} }}
"#,
        waiting = queue.saturating_sub(1).max(1),
        cc = cc(agent),
    );
    text
}

fn fig6(
    title: &str,
    agent: Agent,
    tcp: &str,
    delayed: &str,
    (hops, forward, reverse): (u32, u32, u32),
    duration_s: f64,
) -> String {
    let mut text = head(
        title,
        "The measured flow crosses every hop; the cross flows (Newreno) one hop each.",
        duration_s,
    );
    for hop in 0..hops {
        let _ = write!(
            text,
            r#"
[[link]]
between = ["r{hop}", "r{next}"]
rate = "10Mbit/s"
delay = "10ms"
queue = {{ kind = "droptail", limit = "124p" }}
"#,
            next = hop + 1
        );
    }
    let mut host = |name: &str, router: u32| {
        let _ = write!(
            text,
            r#"
[[link]]
between = ["{name}", "r{router}"]
rate = "100Mbit/s"
delay = "20ms"
queue = {{ kind = "droptail", limit = "9999p" }}
"#
        );
    };
    host("src", 0);
    host("dst", hops);
    let mut cross = Vec::new();
    for hop in 0..hops {
        for (kind, count, from, to) in [("cross", forward, hop, hop + 1), ("against", reverse, hop + 1, hop)]
        {
            for number in 0..count {
                let (sender, receiver) =
                    (format!("{kind}-s{hop}-{number}"), format!("{kind}-d{hop}-{number}"));
                host(&sender, from);
                host(&receiver, to);
                cross.push((kind, sender, receiver));
            }
        }
    }
    let _ = write!(
        text,
        r#"
[[flow]]
name = "measured"
from = "src"
to = "dst"
cc = {cc}
start = "10s"
tcp = {{ {tcp} }}
"#,
        cc = cc(agent),
    );
    for (number, (kind, sender, receiver)) in cross.iter().enumerate() {
        let _ = write!(
            text,
            r#"
[[flow]]
name = "{kind}-{number}"
from = "{sender}"
to = "{receiver}"
cc = {cc}
start = "0s..1s"
tcp = {{ {CLASSIC}, recovery = "newreno", sack = false{delayed} }}
"#,
            cc = cc(Agent::Newreno),
        );
    }
    text
}

#[expect(clippy::too_many_arguments, reason = "the columns of the table")]
fn fig7(
    title: &str,
    agent: Agent,
    tcp: &str,
    loss: f64,
    rate: f64,
    duration_s: f64,
    one_way_ms: f64,
    bandwidth_mbps: f64,
) -> String {
    let mut text = head(
        title,
        "n0 -- n1 == n2 -- n3; the middle link loses packets in the forward direction.",
        duration_s,
    );
    let loss = if loss > 0.0 {
        format!(
            "loss = {{ kind = \"bernoulli\", probability = {loss} }}\nreverse = {{ loss = {{ kind = \"none\" }} }}\n"
        )
    } else {
        String::new()
    };
    let _ = write!(
        text,
        r#"
[[link]]
between = ["n0", "n1"]
rate = "100Mbit/s"
delay = "1ms"
queue = {{ kind = "droptail", limit = "999p" }}

[[link]]
between = ["n1", "n2"]
rate = "{bandwidth_mbps}Mbit/s"
delay = "{middle}ms"
queue = {{ kind = "droptail", limit = "999p" }}
{loss}
[[link]]
between = ["n2", "n3"]
rate = "100Mbit/s"
delay = "1ms"
queue = {{ kind = "droptail", limit = "999p" }}

# The last 30 s are for messages that are still in flight.
[[flow]]
name = "measured"
from = "n0"
to = "n3"
app = "poisson"
message_rate = {rate}
message_size = "512B"
cc = {cc}
start = "1s"
stop = "{stop}s"
tcp = {{ {tcp}, mss = "512B", delayed_ack = "0s" }}
"#,
        middle = one_way_ms - 2.0,
        cc = cc(agent),
        stop = duration_s - 30.0,
    );
    text
}
