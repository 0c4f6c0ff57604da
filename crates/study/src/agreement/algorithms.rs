//! The congestion controls that both Linux and the model have.

/// A congestion control of Linux 6.1, and how the model is given the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Algorithm {
    /// Its name, in Linux and in scenarios.
    pub(super) name: &'static str,
    /// The model's, as scenarios write it.
    pub(super) model: &'static str,
    /// About how many times Reno's goodput it has where packets are lost at random. It only decides how long runs are.
    pub(super) times: f64,
    /// Whether it draws random numbers, so that runs without losses differ, too.
    pub(super) draws: bool,
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
pub(super) const ALGORITHMS: &[Algorithm] = &[
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
