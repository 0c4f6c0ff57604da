//! The block of parameters that TCP Nice has in the kernel. The build makes the C structure of this list (`nice_parameters.h`), and the library fills
//! it (`bpf/parameters.rs`). Names, defaults, ranges and meanings are those of `NiceParams` (crates/transport/src/cc/nice.rs).

/// What a word of the block counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A part of one, in 1/65536.
    Part,
    /// Segments, in 1/4096.
    Segments,
    /// A time in microseconds; all ones for no limit.
    Micros,
    /// A time in 1024 microseconds, which the programs' clock of long spans counts.
    Spans,
    /// 1 for yes, 0 for no.
    Flag,
}

/// The parameters that the programs know, in their order. A change here, or of a structure in `native/bpf/nice.h`, needs another [`LAYOUT`].
pub(crate) const WORDS: [(&str, Unit); 16] = [
    ("threshold", Unit::Part),
    ("fraction", Unit::Part),
    ("decrease", Unit::Part),
    ("floor", Unit::Segments),
    ("alpha", Unit::Segments),
    ("beta", Unit::Segments),
    ("gamma", Unit::Segments),
    ("growth", Unit::Segments),
    ("target", Unit::Part),
    ("start", Unit::Part),
    ("most_delay", Unit::Micros),
    ("own_packets", Unit::Segments),
    ("initial_window", Unit::Segments),
    ("base_window", Unit::Spans),
    ("max_of_rounds", Unit::Flag),
    ("prompt", Unit::Flag),
];

/// The number of the structures' present form, the block's first word: whoever reads a block, or a connection's state, checks it.
pub(crate) const LAYOUT: u32 = 8;
/// A segment, in the units of a window.
pub(crate) const SEGMENT: u32 = 4096;
/// Segments that a window below as many sends together.
pub(crate) const BURST: u32 = 2;
/// How often the window is reduced at once, at most.
pub(crate) const MOST_REDUCTIONS: u32 = 16;
/// How long a receiver waits for a second segment before it acknowledges the first, in microseconds.
pub(crate) const ACK_DELAY: u32 = 40_000;
/// All of something, in the units of a part.
pub(crate) const WHOLE: u32 = 65536;

impl Unit {
    /// How many of the words' units make one: a whole, a segment, a nanosecond; none of a flag.
    pub(crate) const fn scale(self) -> f64 {
        match self {
            Unit::Part => WHOLE as f64,
            Unit::Segments => SEGMENT as f64,
            Unit::Micros => 1e-3,
            Unit::Spans => 1.0 / 1_024_000.0,
            Unit::Flag => 0.0,
        }
    }

    /// The most that the programs' arithmetic holds, in wholes, segments or nanoseconds.
    pub(crate) const fn most(self) -> f64 {
        match self {
            Unit::Part | Unit::Segments => 1000.0,
            Unit::Micros => 1e12,
            Unit::Spans => 86_400e9,
            Unit::Flag => 1.0,
        }
    }
}
