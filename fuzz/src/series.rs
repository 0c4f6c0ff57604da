//! Files of losses and delays: no bytes make the readers panic, and what is read can be used.
use warpline_core::parameter::{Contents, FileOf};
use warpline_core::{Streams, Timestamp};
use warpline_net::jitter::{self, DelayTrace};
use warpline_net::loss::{self, LossTrace};
use warpline_net::model::Model;
use warpline_net::series::{TraceColumn, TraceEnd};

/// Instants at which packets leave, some of them far apart.
const INSTANTS: [u64; 6] = [0, 1, 1_000_000, 20_000_000_000, 20_000_000_001, u64::MAX - 1];

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let stream = &mut Streams::new(1).stream("fuzz");
    for (column, end) in [(TraceColumn::Uplink, TraceEnd::Hold), (TraceColumn::Rtt, TraceEnd::Repeat)] {
        if let Ok(trace) = LossTrace::parse(bytes) {
            let params = loss::TracedParams { file: FileOf::holding(trace), column, end };
            let mut model = loss::Traced::new(&params);
            for at in INSTANTS {
                model.decide(Timestamp::from_nanos(at), stream);
            }
        }
        if let Ok(trace) = DelayTrace::parse(bytes) {
            let file = FileOf::holding(trace);
            let params = jitter::TracedParams { file, column, end, ..jitter::TracedParams::default() };
            let mut model = jitter::Traced::new(&params);
            for at in INSTANTS {
                let delay = model.decide(Timestamp::from_nanos(at), stream);
                assert!(delay >= 0.0 && delay.is_finite(), "{delay}");
            }
        }
    }
}
