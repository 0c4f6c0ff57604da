//! Samples of several intervals as one, for whoever watches a run: rates are means, counts add up, and of the rest the last value counts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::column::Row;
use crate::declaration::{Column, ColumnInfo, Kind, Scalar};
use crate::units::Unit;

/// What has been sampled of one flow or link since the last period.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// Sum and number of the values, by column.
    sums: Vec<(f64, u32)>,
    /// The last values.
    last: Vec<Scalar<'static>>,
}

/// Collects the samples of a period.
#[derive(Clone, Debug, Default)]
pub struct Period(BTreeMap<u64, Tally>);

/// Whether a column is the number that says whose sample it is.
fn is_number(column: &ColumnInfo) -> bool {
    column.key && column.kind == Kind::Whole
}

impl Period {
    /// Takes samples.
    pub fn add<R: Row>(&mut self, samples: &[R]) {
        let own = R::COLUMNS.iter().find(|column| is_number(&column.info));
        for sample in samples {
            let number = own.and_then(|own| (own.value)(sample).number()).unwrap_or_default();
            let tally = self.0.entry(number as u64).or_default();
            tally.sums.resize(R::COLUMNS.len(), (0.0, 0));
            tally.last.resize(R::COLUMNS.len(), Scalar::Absent);
            for ((Column { value, .. }, sum), last) in
                R::COLUMNS.iter().zip(&mut tally.sums).zip(&mut tally.last)
            {
                let value = value(sample);
                if let Some(number) = value.number() {
                    *sum = (sum.0 + number, sum.1 + 1);
                    *last = value.into_owned();
                }
            }
        }
    }

    /// The row of each flow or link, by its number, as a JSON object without the time; begins the next period. Absent values have no member.
    pub fn take<R: Row>(&mut self) -> Vec<(u32, Map<String, Value>)> {
        let rows = std::mem::take(&mut self.0).into_iter();
        rows.map(|(number, tally)| (number as u32, object::<R>(&tally))).collect()
    }
}

fn object<R: Row>(tally: &Tally) -> Map<String, Value> {
    let mut object = Map::new();
    for ((column, &(sum, count)), last) in R::COLUMNS.iter().zip(&tally.sums).zip(&tally.last) {
        let info = &column.info;
        if count == 0 || info.key && !is_number(info) {
            continue;
        }
        let value = if info.unit == Unit::BitPerSecond {
            Value::from(sum / f64::from(count))
        } else if info.ticks {
            Value::from(sum as u64)
        } else {
            json!(last)
        };
        object.insert(info.name.to_owned(), value);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkSample;

    #[test]
    fn rates_are_means_counts_add_up_and_states_are_the_last() {
        let sample = |link, throughput_bps, backlog_packets, drops, queue_delay_ms| LinkSample {
            link,
            throughput_bps,
            backlog_packets,
            drops,
            queue_delay_ms,
            ..LinkSample::default()
        };
        let mut period = Period::default();
        period.add(&[sample(0, 1e6, 5, 2, Some(3.0)), sample(4, 8e6, 1, 0, None)]);
        period.add(&[sample(0, 3e6, 7, 1, None), sample(4, 8e6, 0, 0, None)]);
        let rows = period.take::<LinkSample>();
        assert_eq!(rows.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [0, 4]);
        let first = Value::Object(rows[0].1.clone());
        let found = ["link", "throughput_bps", "backlog_packets", "drops", "queue_delay_ms"];
        assert_eq!(found.map(|name| first[name].as_f64().unwrap()), [0.0, 2e6, 7.0, 3.0, 3.0]);
        assert!(first.get("time_s").is_none() && rows[1].1.get("queue_delay_ms").is_none());
        assert!(period.take::<LinkSample>().is_empty());
    }
}
