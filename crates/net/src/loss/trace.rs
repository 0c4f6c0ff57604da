//! Losses from a file.
//!
//! Three forms of file ([`crate::series`]): one column of 0 and 1, the fate of each packet in turn; `packet,lost` with the numbers of packets, counted from 1, of which
//! those not listed pass; and `time,lost` with seconds since the start of the run, where each line holds until the next and packets before the first one
//! pass. In all three 1 is lost and 0 passes. A file of LENS is of the third form: between two of its lines, packets share the fate of the first.
//!
//! By packets, the trace is as long as the number of its last packet says; by time, it ends at its last line, which then holds only if the trace does not repeat.

use warpline_core::parameter::{Contents, FileOf, Parameters};
use warpline_core::{Stream, Timestamp};

use crate::model::Model;
use crate::series::{Cell, Series, SeriesError, Timeline, TraceColumn, TraceEnd};

/// The packets that a file says are lost.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("trace")]
pub struct TracedParams {
    /// The file, relative to the scenario file: a line for each packet with 0 or 1 (lost), or lines `packet,lost` (numbers from 1) or `time,lost` (seconds from the run's start)
    /// below that heading, or a file of the data set LENS.
    #[parameter(default = FileOf::at("losses.csv"), required)]
    pub file: FileOf<LossTrace>,
    /// Which losses of a LENS file.
    #[parameter(default = TraceColumn::Downlink)]
    pub column: TraceColumn,
    /// What happens after its end.
    #[parameter(default = TraceEnd::Repeat)]
    pub end: TraceEnd,
}

/// What a file says of losses.
#[derive(Clone, Debug, PartialEq)]
pub struct LossTrace {
    /// Whether it goes by time, in nanoseconds; otherwise by packets, counted from 0.
    by_time: bool,
    /// One, or those of the columns of LENS in the order of [`TraceColumn`].
    lines: Vec<Timeline<bool>>,
}

impl Contents for LossTrace {
    const WHAT: &'static str = "loss trace";

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        LossTrace::read(bytes).map_err(|error| error.to_string())
    }
}

impl LossTrace {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// At the first error, with its line and column.
    pub fn read(bytes: &[u8]) -> Result<Self, SeriesError> {
        let series = Series::parse(bytes)?;
        let lost = |row: &[Cell], column: usize| match row[column].number.whole() {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(row[column].error("a packet is lost (1) or not (0)")),
        };
        if let Some([rtt, uplink, downlink]) = series.lens() {
            let times = series.times()?;
            let end = times.last().copied().unwrap_or_default();
            let gone = |row: &[Cell], column: usize| row[column].number.value() == -1.0;
            let line = |columns: &[usize]| {
                let fates = series.rows.iter().map(|row| columns.iter().any(|&column| gone(row, column)));
                Timeline::new(times.iter().copied().zip(fates), end)
            };
            let lines = vec![line(&[rtt, uplink]), line(&[rtt, downlink]), line(&[rtt, uplink, downlink])];
            return Ok(LossTrace { by_time: true, lines });
        }
        let line = match series.names[..] {
            [] => {
                let fates = series.rows.iter().zip(0..).map(|(row, number)| Ok((number, lost(row, 0)?)));
                Timeline::new(fates.collect::<Result<Vec<_>, _>>()?, series.rows.len() as u64)
            }
            ["packet", "lost"] => by_packet(&series, lost)?,
            ["time", "lost"] => {
                let times = series.times()?;
                let end = times.last().copied().unwrap_or_default();
                let fates = times.into_iter().zip(&series.rows).map(|(time, row)| Ok((time, lost(row, 1)?)));
                Timeline::new(fates.collect::<Result<Vec<_>, _>>()?, end)
            }
            _ => {
                let known = "packet,lost; time,lost; timestamp,rtt,uplink,downlink; timestamp,rtt; or none";
                return Err(series.unknown(known));
            }
        };
        Ok(LossTrace { by_time: series.names.first() == Some(&"time"), lines: vec![line] })
    }
}

/// The fates of packets by their numbers, counted from 1 in the file and from 0 here.
fn by_packet(
    series: &Series<'_>,
    lost: impl Fn(&[Cell], usize) -> Result<bool, SeriesError>,
) -> Result<Timeline<bool>, SeriesError> {
    let (mut fates, mut next) = (Vec::new(), 0);
    for row in &series.rows {
        let number = row[0].number.whole().filter(|&number| number > next);
        let number =
            number.ok_or_else(|| row[0].error("numbers of packets are whole, from 1 on, and rise"))?;
        if number - 1 > next {
            fates.push((next, false));
        }
        fates.push((number - 1, lost(row, 1)?));
        next = number;
    }
    // What comes after the last is not listed, either.
    fates.push((next, false));
    Ok(Timeline::new(fates, next))
}

/// Losses from a file.
#[derive(Clone, Debug)]
pub struct Traced {
    params: TracedParams,
    /// Packets so far.
    packets: u64,
}

impl Model<bool> for Traced {
    type Params = TracedParams;

    fn new(params: &TracedParams) -> Self {
        Traced { params: params.clone(), packets: 0 }
    }
    fn decide(&mut self, at: Timestamp, _: &mut Stream) -> bool {
        let number = self.packets;
        self.packets += 1;
        let Some(trace) = self.params.file.contents() else { return false };
        let line = trace.lines.get(self.params.column as usize).or(trace.lines.first());
        let place = if trace.by_time { at.as_nanos() } else { number };
        line.is_some_and(|line| line.at(place, self.params.end, false))
    }
    fn words(params: &TracedParams) -> String {
        format!("loss by {}", params.file.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    /// The numbers, from 1, of the packets lost among `n` that leave a second apart.
    fn lost(text: &str, column: TraceColumn, end: TraceEnd, n: u64) -> Vec<u64> {
        let trace = LossTrace::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let params = TracedParams { file: FileOf::holding(trace), column, end };
        let (mut model, mut stream) = (Traced::new(&params), Streams::new(1).stream("loss"));
        (1..=n).filter(|number| model.decide(Timestamp::from_secs(number - 1), &mut stream)).collect()
    }
    fn plain(text: &str, end: TraceEnd, n: u64) -> Vec<u64> {
        lost(text, TraceColumn::default(), end, n)
    }

    #[test]
    fn a_column_of_bits_is_the_fate_of_each_packet() {
        let text = "# a trace\n0\n1\n1\n0\n";
        assert_eq!(plain(text, TraceEnd::Repeat, 10), [2, 3, 6, 7, 10]);
        assert_eq!(plain(text, TraceEnd::Hold, 10), [2, 3]);
        assert_eq!(plain("0\n1\n", TraceEnd::Hold, 5), [2, 3, 4, 5], "the last line holds");
    }

    #[test]
    fn packets_that_are_not_listed_pass() {
        let text = "packet,lost\n2,1\n3,1\n6,1\n8,0\n";
        assert_eq!(plain(text, TraceEnd::Repeat, 14), [2, 3, 6, 10, 11, 14]);
        assert_eq!(plain("packet,lost\n1,1\n", TraceEnd::Repeat, 3), [1, 2, 3]);
        assert_eq!(plain("packet,lost\n2,1\n3,1\n", TraceEnd::Hold, 9), [2, 3]);
    }

    #[test]
    fn a_line_with_a_time_holds_until_the_next() {
        let text = "time,lost\n1,1\n2.5,0\n4,1\n5,0\n";
        assert_eq!(plain(text, TraceEnd::Hold, 12), [2, 3, 5]);
        // A round is five seconds.
        assert_eq!(plain(text, TraceEnd::Repeat, 10), [2, 3, 5, 7, 8, 10]);
    }

    #[test]
    fn lens_has_losses_of_each_way() {
        let text = "timestamp,rtt,uplink,downlink\n1000000000,0,0,-1\n2000000000,9,5,4\n3000000000,0,-1,0\n\
                    4000000000,-1,0,0\n5000000000,9,5,4\n";
        let of = |column| lost(text, column, TraceEnd::Hold, 6);
        assert_eq!(of(TraceColumn::Uplink), [3, 4]);
        assert_eq!(of(TraceColumn::Downlink), [1, 4]);
        assert_eq!(of(TraceColumn::Rtt), [1, 3, 4]);
        let ping = "timestamp,rtt\n7.0,-1\n8.0,91.8\n";
        assert_eq!(lost(ping, TraceColumn::Uplink, TraceEnd::Hold, 3), [1]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, message) in [
            ("0\n2\n", "line 2, column 1: a packet is lost (1) or not (0)"),
            (
                "packet,lost\n3,1\n3,0\n",
                "line 3, column 1: numbers of packets are whole, from 1 on, and rise",
            ),
            ("packet,lost\n0,1\n", "line 2, column 1: numbers of packets are whole, from 1 on, and rise"),
            (
                "when,lost\n0,1\n",
                "line 1, column 1: the names of the columns are when,lost; known: packet,lost; time,lost; timestamp,rtt,uplink,downlink; timestamp,rtt; \
                 or none",
            ),
        ] {
            assert_eq!(LossTrace::parse(text.as_bytes()).unwrap_err(), message);
        }
    }

    #[test]
    fn a_file_that_has_not_been_read_loses_nothing() {
        assert!(super::super::tests::lost("trace:file=x.csv", 100).is_empty());
    }
}
