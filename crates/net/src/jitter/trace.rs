//! Delays from a file.
//!
//! Two forms of file ([`crate::series`]): `time,delay` with seconds since the start of the run and milliseconds, where each line holds until the next and the
//! first one also before it; and a file of the data set LENS, where lost packets leave the delay as it was. The trace ends at its last line, which
//! then holds only if the trace does not repeat.
//!
//! The trace adds to the link's `delay`: with `delay = "0s"` it is the whole delay. No packet overtakes another when the delay falls, unless `reorder` says so.

use warpline_core::parameter::{Contents, FileOf, Parameters};
use warpline_core::{Stream, Timestamp};

use super::Order;
use crate::model::Model;
use crate::series::{Series, SeriesError, Timeline, TraceColumn, TraceEnd};

/// The further delay that a file says, which changes over time.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("trace")]
pub struct TracedParams {
    /// The file, relative to the scenario file: lines `time,delay` (seconds from the run's start, and milliseconds) below that heading, or a file of the data set LENS.
    #[parameter(default = FileOf::at("delays.csv"), required)]
    pub file: FileOf<DelayTrace>,
    /// Which delay of a LENS file.
    #[parameter(default = TraceColumn::Downlink)]
    pub column: TraceColumn,
    /// What happens after its end.
    #[parameter(default = TraceEnd::Repeat)]
    pub end: TraceEnd,
    /// In which order packets arrive.
    #[parameter(flatten)]
    pub order: Order,
}

/// What a file says of delays.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayTrace {
    /// Seconds, over nanoseconds: one line, or those of the columns of LENS in the order of [`TraceColumn`].
    lines: Vec<Timeline<f64>>,
}

impl Contents for DelayTrace {
    const WHAT: &'static str = "delay trace";

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        DelayTrace::read(bytes).map_err(|error| error.to_string())
    }
}

impl DelayTrace {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// At the first error, with its line and column.
    pub fn read(bytes: &[u8]) -> Result<Self, SeriesError> {
        let series = Series::parse(bytes)?;
        let known = "time,delay; timestamp,rtt,uplink,downlink; or timestamp,rtt";
        let lens = series.lens();
        if lens.is_none() && series.names[..] != ["time", "delay"] {
            return Err(series.unknown(known));
        }
        let times = series.times()?;
        let end = times.last().copied().unwrap_or_default();
        // One that is zero or negative in LENS is of a packet that was lost.
        let line = |column: usize, part: f64| {
            let mut delays = Vec::new();
            for (&time, row) in times.iter().zip(&series.rows) {
                let millis = row[column].number.value();
                match (lens.is_some(), millis) {
                    (true, gone) if gone <= 0.0 => {}
                    (false, negative) if negative < 0.0 => {
                        return Err(row[column].error("a delay is not negative"));
                    }
                    _ => delays.push((time, millis * part / 1e3)),
                }
            }
            Ok(Timeline::new(delays, end))
        };
        let lines = match lens {
            None => vec![line(1, 1.0)?],
            Some([rtt, uplink, downlink]) => {
                let one_way = |column| line(column, if column == rtt { 0.5 } else { 1.0 });
                vec![one_way(uplink)?, one_way(downlink)?, one_way(rtt)?]
            }
        };
        Ok(DelayTrace { lines })
    }
}

/// Delays from a file.
#[derive(Clone, Debug)]
pub struct Traced(TracedParams);

impl Model<f64> for Traced {
    type Params = TracedParams;

    fn new(params: &TracedParams) -> Self {
        Traced(params.clone())
    }
    fn decide(&mut self, at: Timestamp, _: &mut Stream) -> f64 {
        let Some(trace) = self.0.file.contents() else { return 0.0 };
        let line = trace.lines.get(self.0.column as usize).or(trace.lines.first());
        line.map_or(0.0, |line| line.at(at.as_nanos(), self.0.end, line.first().unwrap_or(0.0)))
    }
    fn words(params: &TracedParams) -> String {
        params.file.path().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    /// The delays in milliseconds of packets that leave a second apart.
    fn delays<const N: usize>(text: &str, column: TraceColumn, end: TraceEnd) -> [f64; N] {
        let trace = DelayTrace::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let order = Order { reorder: false };
        let mut model = Traced::new(&TracedParams { file: FileOf::holding(trace), column, end, order });
        let mut stream = Streams::new(1).stream("jitter");
        std::array::from_fn(|second| 1e3 * model.decide(Timestamp::from_secs(second as u64), &mut stream))
    }

    #[test]
    fn a_line_holds_until_the_next_and_the_first_one_before_it() {
        let text = "time,delay\n1,20\n2,30.5\n4,10\n";
        let column = TraceColumn::default();
        assert_eq!(delays(text, column, TraceEnd::Hold), [20.0, 20.0, 30.5, 30.5, 10.0, 10.0]);
        assert_eq!(delays(text, column, TraceEnd::Repeat), [20.0, 20.0, 30.5, 30.5, 20.0, 20.0, 30.5]);
    }

    #[test]
    fn lens_has_delays_of_each_way_and_none_for_what_was_lost() {
        let text = "timestamp,rtt,uplink,downlink\n1000000000,0,0,-1\n2000000000,60,40,20\n3000000000,-1,0,0\n\
                    4000000000,50,28,22\n";
        let of = |column| delays(text, column, TraceEnd::Hold);
        assert_eq!(of(TraceColumn::Uplink), [40.0, 40.0, 40.0, 28.0]);
        assert_eq!(of(TraceColumn::Downlink), [20.0, 20.0, 20.0, 22.0]);
        assert_eq!(of(TraceColumn::Rtt), [30.0, 30.0, 30.0, 25.0]);
        let ping = "timestamp,rtt\n1705744800.533641,91\n1705744801.6,80\n";
        assert_eq!(delays(ping, TraceColumn::Uplink, TraceEnd::Hold), [45.5, 45.5, 40.0]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let error = |text: &str| DelayTrace::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error("time,delay\n0,1\n1,-2\n"), "line 3, column 3: a delay is not negative");
        assert!(
            error("0\n")
                .starts_with("line 1, column 1: the names of the columns are none; known: time,delay;")
        );
    }
}
