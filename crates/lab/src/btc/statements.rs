//! The statements on its algorithms that a conforming tool must make (RFC 3148 section 2), for the options in force.

use serde::{Deserialize, Serialize};
use warpline_capacity::{CapOptions, HEADERS};
use warpline_core::parameter::Choice;
use warpline_transport::cc::{Algorithm, Hystart};
use warpline_transport::tcp::Recovery;

/// The statements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statements {
    /// How the window opens in congestion avoidance.
    pub congestion_avoidance: String,
    /// The algorithm that is used when the window equals the threshold.
    pub cwnd_equals_ssthresh: String,
    /// All of loss recovery.
    pub loss_recovery: String,
    /// The segment size, how it was chosen, and how it relates to the path MTU.
    pub segment_size: String,
    /// The header bytes that are counted but are not data.
    pub headers: String,
    /// How the time-out is computed, when its timer is set, and the timer's granularity.
    pub retransmission_timeout: String,
    /// When the receiver sends acknowledgements.
    pub acknowledgements: String,
    /// How segments that are slightly out of order affect the window.
    pub reordering: String,
    /// How the receiver's advertised window limits sending.
    pub advertised_window: String,
}

fn avoidance(options: &CapOptions) -> String {
    let source = match options.algorithm() {
        Algorithm::Reno(_) => {
            let slow = if options.count_acks {
                "one segment for every acknowledgement"
            } else {
                "as many bytes as are acknowledged (RFC 3465 without its limit, as in Linux)"
            };
            return format!(
                "bytes acknowledged are counted; when the count reaches cwnd, cwnd is subtracted from it and cwnd grows by one segment \
                 (RFC 5681, one segment for each window). In slow start cwnd grows by {slow}. A loss halves {}",
                if options.modern {
                    "cwnd (as in Linux)"
                } else {
                    "the bytes in flight (RFC 5681 equation 4)"
                }
            );
        }
        Algorithm::Cubic(p) => {
            return format!(
                "CUBIC (RFC 9438): cwnd follows C (t - K)^3 + Wmax with C = {} and, after a loss, beta = {}; never less than Reno would \
                 have (section 4.3). In slow start cwnd grows by the bytes acknowledged{}",
                p.c,
                p.beta,
                match p.slow_start.hystart {
                    Hystart::No => "",
                    Hystart::Linux => {
                        "; HyStart (Linux) ends it, from 16 segments on, where acknowledgements less than 2 ms apart make a train of half a \
                         round trip, or the smallest of more than eight round trips is an eighth (4 to 16 ms) above the smallest of all"
                    }
                    Hystart::Cdg =>
                        "; HyStart, in the form of Linux's CDG (tcp_cdg.c), may end it before a loss",
                    Hystart::Rfc9406 => "; HyStart++ (RFC 9406) may end it before a loss",
                    Hystart::Search => "; SEARCH (draft-chung-ccwg-search) may end it before a loss",
                }
            );
        }
        other => other.about(),
    };
    format!("{source} This is not the standard's congestion avoidance: the result is that of this algorithm")
}

fn recovery(options: &CapOptions) -> String {
    match (options.recovery, options.modern) {
        (Recovery::Tahoe, _) => {
            "Tahoe: three duplicate acknowledgements cause a fast retransmit, then slow start from one segment (Jacobson 1988)".into()
        }
        (Recovery::Reno, _) => {
            "Reno: fast retransmit and fast recovery that ends with the first new acknowledgement (RFC 5681 section 3.2)".into()
        }
        (Recovery::NewReno, _) => {
            "NewReno: fast recovery repairs one loss per round trip on partial acknowledgements, the impatient variant (RFC 6582)"
                .into()
        }
        (Recovery::Sack, true) => {
            "selective acknowledgements (RFC 2018, D-SACK RFC 2883); losses found by time with RACK and tail loss probes (RFC 8985); the \
             window approached by proportional rate reduction (RFC 6937, RFC 9937); limited transmit (RFC 3042); spurious reductions undone \
             by Eifel (RFC 3522, RFC 4015) and D-SACK (RFC 3708)"
                .into()
        }
        (Recovery::Sack, false) => {
            "selective acknowledgements (RFC 2018) and the pipe algorithm with a threshold of three (RFC 6675); the window falls at once to \
             the threshold; no limited transmit, no rate halving"
                .into()
        }
    }
}

/// How slight reordering affects the window (RFC 3148 section 3.3).
fn reordering(options: &CapOptions) -> String {
    let window = if options.count_acks && matches!(options.algorithm(), Algorithm::Reno(_)) {
        "duplicate acknowledgements do not open it; in slow start, the acknowledgement that closes the gap counts as one, however much it \
         acknowledges; in congestion avoidance bytes count"
    } else {
        "acknowledged bytes count, in any order, so that the window grows as it does without reordering"
    };
    let enough = match (options.recovery, options.modern) {
        (Recovery::Sack, true) => {
            "A segment counts as lost when a later one has arrived and the round trip plus a reordering window has passed: a quarter of the smallest \
             round trip once reordering was seen; before that, three later segments are enough (RFC 8985)"
        }
        _ => "A segment that three later ones overtake is sent again, and the window is reduced",
    };
    format!("{window}. {enough}")
}

/// When the receiver acknowledges.
fn acknowledgements(options: &CapOptions) -> String {
    match options.delayed_ack {
        None => "every segment at once".into(),
        Some(delay) => format!(
            "every second full segment, or after {delay:#}; at once if one is missing or fills a gap{}",
            if options.quick_acks > 0 {
                format!("; the first {} one by one", options.quick_acks)
            } else {
                String::new()
            }
        ),
    }
}

/// The parameters that differ from the defaults, if any do.
fn parameters(options: &CapOptions) -> String {
    match options.algorithm().to_string().split_once(':') {
        Some((_, set)) => format!(". Parameters that differ from the algorithm's defaults: {set}"),
        None => String::new(),
    }
}

impl Statements {
    /// The statements for these options; `reached` says whether segments of the size arrived. `probes` is what carried them, in words, if
    /// there was no software at the far end.
    pub fn new(options: &CapOptions, ipv6: bool, reached: bool, probes: Option<&str>) -> Statements {
        let size = options.packet(ipv6);
        let headers = HEADERS + (size - options.segment) + if options.timestamps { 12 } else { 0 };
        let payload = size - headers;
        let clock = match (options.granularity.is_zero(), options.heartbeat) {
            (true, _) => "The clock's granularity is below a microsecond".to_owned(),
            (false, true) => format!(
                "Time-outs are whole ticks of {:#}: one of n ticks ends with the n-th beat of a heartbeat of random phase",
                options.granularity
            ),
            (false, false) => format!("Time-outs are rounded up to {:#}", options.granularity),
        };
        let rto = if options.modern {
            format!(
                "Linux's estimator (srtt, largest mean deviation of each round trip), a sample with every acknowledgement; its variance \
                 term at least {:#}, the time-out",
                options.min_rto
            )
        } else {
            format!(
                "RFC 6298, one sample per round trip{}; at least {:#}, and",
                if options.timestamps { " (with timestamps also for segments sent twice)" } else { "" },
                options.min_rto
            )
        };
        Statements {
            congestion_avoidance: avoidance(options) + &parameters(options),
            cwnd_equals_ssthresh: "congestion avoidance".into(),
            loss_recovery: recovery(options),
            segment_size: format!(
                "{payload} bytes of data in packets of {size} bytes; given, not searched for. {}",
                if reached {
                    format!(
                        "Fragmentation was forbidden and packets arrived: the path MTU is {size} bytes or more. If it \
                         is larger, the segment size is less than the path allows"
                    )
                } else {
                    "Whether the path carries such packets is not known".to_owned()
                }
            ),
            headers: format!(
                "{} bytes of IP and TCP headers{} are assumed on every data segment and do not count; SACK blocks add to acknowledgements \
                 only. The packets are {} of the same size",
                headers,
                if options.timestamps { " (with 12 of timestamps)" } else { "" },
                probes.unwrap_or("UDP")
            ),
            retransmission_timeout: format!(
                "{rto} at most {:#}; {:#} before the first sample. The timer is set when data is sent while none is in flight, and again when data is \
                 acknowledged; it doubles at each time-out (RFC 6298 section 5). {clock}",
                options.max_rto, options.initial_rto
            ),
            acknowledgements: {
                let by = if probes.is_some() {
                    ", by a receiver in the sending host that gets a segment when the probe with it has been answered"
                } else {
                    ""
                };
                acknowledgements(options) + by
            },
            reordering: reordering(options),
            advertised_window: format!("{} bytes", options.window),
        }
    }

    /// Each statement's name and text.
    pub fn each(&self) -> [(&'static str, &str); 9] {
        [
            ("congestion avoidance", &self.congestion_avoidance),
            ("cwnd equal to ssthresh", &self.cwnd_equals_ssthresh),
            ("loss recovery", &self.loss_recovery),
            ("segment size", &self.segment_size),
            ("headers", &self.headers),
            ("retransmission time-out", &self.retransmission_timeout),
            ("acknowledgements", &self.acknowledgements),
            ("slightly out of order", &self.reordering),
            ("advertised window", &self.advertised_window),
        ]
    }
}
