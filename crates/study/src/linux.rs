//! Linux and the model on equal terms: the congestion controls that both have, and the settings with which each is given what the other has.
//!
//! `docs/src/agreement.md` says why ("What makes it fair").

/// TCP options with which the model is like the kernel of guests. The kernel's clock has a hundred ticks a second. Its senders without SACK are patient. Its
/// receivers acknowledge the first segments one by one, and open their window step by step. Of the guests' buffer ([`BUFFERS`]) they advertise half (`tcp_adv_win_scale`).
pub(crate) const MODEL_TCP: [(&str, &str); 5] = [
    ("tick", "\"10ms\""),
    ("quick_acks", "16"),
    ("impatient", "false"),
    ("receive_buffer", "\"16MiB\""),
    ("receive_ssthresh", "\"65535B\""),
];

/// These options as a table of TOML.
pub(crate) fn model_tcp() -> String {
    let options: Vec<String> = MODEL_TCP.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", options.join(", "))
}

/// Settings of a guest whose buffers are never the limit, as the model's are not: smallest, first and largest size.
pub(crate) const BUFFERS: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 33554432 33554432"), ("net.ipv4.tcp_wmem", "4096 33554432 33554432")];

/// TCP options of the model that are switches, and the kernel's settings for the same.
pub(crate) const SWITCHES: [(&str, &str); 4] = [
    ("sack", "net.ipv4.tcp_sack"),
    ("timestamps", "net.ipv4.tcp_timestamps"),
    ("window_scaling", "net.ipv4.tcp_window_scaling"),
    ("ecn", "net.ipv4.tcp_ecn"),
];

/// A congestion control of Linux 6.1, and how the model is given the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Algorithm {
    /// Its name, in Linux and in scenarios.
    pub(crate) name: &'static str,
    /// The model's, as scenarios write it.
    pub(crate) model: &'static str,
    /// About how many times Reno's goodput it has where packets are lost at random. It only decides how long runs are.
    pub(crate) times: f64,
    /// Whether it draws random numbers, so that runs without losses differ, too.
    pub(crate) draws: bool,
}

/// One that draws nothing and has no parameters.
const fn plain(name: &'static str, times: f64) -> Algorithm {
    Algorithm { name, model: name, times, draws: false }
}
/// One that draws random numbers.
const fn drawing(name: &'static str, times: f64) -> Algorithm {
    Algorithm { draws: true, ..plain(name, times) }
}

/// Every congestion control of Linux 6.1.
pub(crate) const ALGORITHMS: &[Algorithm] = &[
    plain("reno", 1.0),
    plain("cubic", 1.0),
    drawing("bbr", f64::INFINITY),
    plain("vegas", 1.0),
    plain("bic", 1.7),
    plain("htcp", 1.5),
    // The kernel's Westwood computes in ticks of its clock.
    Algorithm { model: "westwood:tick=10ms", ..plain("westwood", 2.5) },
    plain("highspeed", 1.0),
    plain("scalable", 2.5),
    plain("illinois", 3.0),
    plain("veno", 1.7),
    plain("yeah", 1.5),
    // The kernel's Hybla counts acknowledgements, the model's by itself bytes.
    Algorithm { model: "hybla:counting=acks", ..plain("hybla", 4.0) },
    drawing("cdg", 1.0),
    drawing("nv", 1.0),
    plain("lp", 1.0),
    plain("dctcp", 1.0),
];

/// The congestion control of this name, as the kernel and scenarios call it; none if Linux or the model does not have it.
pub(crate) fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}
