//! Thinning of long series so that the page stays small, without losing an extreme or a mark.
//!
//! All collectors here are streaming: they keep what they are given until there is more of it than the limit, and from
//! then on a bounded number of rows per time bin.

/// A row: a time and the values at that time, with its place in the input.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row<const N: usize> {
    order: u64,
    time: f64,
    values: [f64; N],
}

/// What a bin keeps: its first and last row, and per column the rows of the smallest and the largest value.
#[derive(Clone, Debug)]
struct Bin<const N: usize> {
    first: Row<N>,
    last: Row<N>,
    low: [Option<Row<N>>; N],
    high: [Option<Row<N>>; N],
}

impl<const N: usize> Bin<N> {
    fn new(row: Row<N>) -> Self {
        let mut bin = Bin { first: row, last: row, low: [None; N], high: [None; N] };
        bin.add(row);
        bin
    }

    fn add(&mut self, row: Row<N>) {
        self.last = row;
        for i in 0..N {
            let value = row.values[i];
            if value.is_nan() {
                continue;
            }
            if self.low[i].is_none_or(|low| value < low.values[i]) {
                self.low[i] = Some(row);
            }
            if self.high[i].is_none_or(|high| value > high.values[i]) {
                self.high[i] = Some(row);
            }
        }
    }

    fn rows(&self) -> Vec<Row<N>> {
        let extremes = self.low.iter().chain(&self.high).flatten().copied();
        let mut rows: Vec<Row<N>> = [self.first, self.last].into_iter().chain(extremes).collect();
        rows.sort_by_key(|row| row.order);
        rows.dedup_by_key(|row| row.order);
        rows
    }
}

/// Where a time lies among `count` equal bins of `[0, span]`.
fn bin_index(time: f64, span: f64, count: usize) -> usize {
    if span <= 0.0 {
        return 0;
    }
    // The cast saturates: what lies before the start or after the end goes into the outermost bins.
    ((time / span * count as f64) as usize).min(count - 1)
}

/// A series of rows in time order, thinned to the extremes of each bin once it grows beyond the limit.
#[derive(Clone, Debug)]
pub(super) struct Envelope<const N: usize> {
    limit: usize,
    span: f64,
    pushed: u64,
    raw: Vec<Row<N>>,
    bins: Vec<Option<Bin<N>>>,
}

impl<const N: usize> Envelope<N> {
    /// For rows whose times lie in `[0, span]` (any unit); keeps about `limit` of them at most.
    pub(super) fn new(span: f64, limit: usize) -> Self {
        Envelope { limit: limit.max(2 * N + 2), span, pushed: 0, raw: Vec::new(), bins: Vec::new() }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, time: f64, values: [f64; N]) {
        let row = Row { order: self.pushed, time, values };
        self.pushed += 1;
        if !self.bins.is_empty() {
            self.bin(row);
        } else if self.raw.len() < self.limit {
            self.raw.push(row);
        } else {
            self.bins = vec![None; (self.limit / (2 * N + 2)).max(1)];
            for earlier in std::mem::take(&mut self.raw) {
                self.bin(earlier);
            }
            self.bin(row);
        }
    }

    fn bin(&mut self, row: Row<N>) {
        let index = bin_index(row.time, self.span, self.bins.len());
        match &mut self.bins[index] {
            Some(bin) => bin.add(row),
            empty => *empty = Some(Bin::new(row)),
        }
    }

    /// Whether rows had to be left out.
    pub(super) fn is_thinned(&self) -> bool {
        !self.bins.is_empty()
    }

    /// The times and the columns that are left, in the order of the input.
    pub(super) fn finish(self) -> (Vec<f64>, [Vec<f64>; N]) {
        let rows: Vec<Row<N>> = if self.bins.is_empty() {
            self.raw
        } else {
            self.bins.iter().flatten().flat_map(Bin::rows).collect()
        };
        let times = rows.iter().map(|row| row.time).collect();
        let columns = std::array::from_fn(|i| rows.iter().map(|row| row.values[i]).collect());
        (times, columns)
    }
}

/// A stretch of sequence space drawn as one mark: `count` segments between two times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    /// Time of the first segment.
    pub(super) start: f64,
    /// Time of the last segment.
    pub(super) stop: f64,
    /// First byte.
    pub(super) seq: f64,
    /// One past the last byte.
    pub(super) end: f64,
    /// How many segments it stands for.
    pub(super) count: f64,
}

/// Marks in sequence space. Beyond the limit, marks of one time bin that follow each other without a gap become one mark;
/// where a bin still has more than [`Marks::PER_BIN`], its last mark grows to cover the rest. So no mark vanishes and no
/// byte that was marked is left unmarked: a lone retransmission stays visible in an hour of data.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    limit: usize,
    span: f64,
    thinned: bool,
    marks: Vec<Mark>,
    // How many marks the bin of the last mark has, and which bin that is.
    current: (usize, usize),
}

impl Marks {
    /// Marks that a time bin may keep.
    pub(super) const PER_BIN: usize = 4;

    /// For marks whose times lie in `[0, span]`; keeps at most about twice `limit` of them.
    pub(super) fn new(span: f64, limit: usize) -> Self {
        Marks { limit: limit.max(Self::PER_BIN), span, thinned: false, marks: Vec::new(), current: (0, 0) }
    }

    /// Adds the next mark.
    pub(super) fn push(&mut self, time: f64, seq: f64, end: f64) {
        let mark = Mark { start: time, stop: time, seq, end, count: 1.0 };
        if self.thinned {
            self.merge(mark);
        } else if self.marks.len() < self.limit {
            self.marks.push(mark);
        } else {
            self.thinned = true;
            for earlier in std::mem::take(&mut self.marks) {
                self.merge(earlier);
            }
            self.merge(mark);
        }
    }

    fn merge(&mut self, mark: Mark) {
        let index = bin_index(mark.start, self.span, (self.limit / Self::PER_BIN).max(1));
        if self.current.0 != index || self.marks.is_empty() {
            self.current = (index, 1);
            self.marks.push(mark);
            return;
        }
        let full = self.current.1 >= Self::PER_BIN;
        match self.marks.last_mut() {
            Some(last) if last.end == mark.seq || full => {
                last.stop = mark.stop;
                last.seq = last.seq.min(mark.seq);
                last.end = last.end.max(mark.end);
                last.count += mark.count;
            }
            _ => {
                self.current.1 += 1;
                self.marks.push(mark);
            }
        }
    }

    /// Whether marks had to be merged.
    pub(super) fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// The marks that are left.
    pub(super) fn finish(self) -> Vec<Mark> {
        self.marks
    }
}

/// A column on a thinned grid: mean, smallest and largest value of each bin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Thinned {
    pub(super) mean: Vec<f64>,
    pub(super) low: Vec<f64>,
    pub(super) high: Vec<f64>,
}

/// Thins a column to `bins`; bins without a value stay without.
pub(super) fn thin_column(values: &[f64], bins: &[std::ops::Range<usize>]) -> Thinned {
    let mut thinned = Thinned::default();
    for bin in bins {
        let (mut low, mut high, mut sum, mut count) = (f64::NAN, f64::NAN, 0.0, 0.0);
        for &value in values[bin.clone()].iter().filter(|v| !v.is_nan()) {
            // `min` and `max` return the other side where one is NaN.
            low = value.min(low);
            high = value.max(high);
            sum += value;
            count += 1.0;
        }
        // Zero by zero is "no value".
        thinned.mean.push(sum / count);
        thinned.low.push(low);
        thinned.high.push(high);
    }
    thinned
}

/// The time that stands for each bin of a thinned grid: its middle.
pub(super) fn thin_times(times: &[f64], bins: &[std::ops::Range<usize>]) -> Vec<f64> {
    bins.iter().map(|bin| (times[bin.start] + times[bin.end - 1]) / 2.0).collect()
}

/// Splits `rows` rows into at most `limit` bins of (nearly) equal size; none when all rows may stay.
pub(super) fn grid_bins(rows: usize, limit: usize) -> Option<Vec<std::ops::Range<usize>>> {
    let count = limit.max(1);
    if rows <= count {
        return None;
    }
    Some((0..count).map(|i| i * rows / count..(i + 1) * rows / count).collect())
}

/// About `limit` quantiles of `values` as (value, fraction at or below it), the smallest and the largest among them.
pub(super) fn quantiles(mut values: Vec<f64>, limit: usize) -> (Vec<f64>, Vec<f64>) {
    values.retain(|v| v.is_finite());
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let steps = count.min(limit.max(2));
    (0..steps)
        .map(|i| {
            // From the first to the last, evenly.
            let at = if steps == 1 { 0 } else { i * (count - 1) / (steps - 1) };
            (values[at], (at + 1) as f64 / count as f64)
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_series_stay_as_they_are() {
        let mut envelope = Envelope::new(10.0, 100);
        (0..100).for_each(|i| envelope.push(f64::from(i) / 10.0, [f64::from(i)]));
        assert!(!envelope.is_thinned());
        assert_eq!(envelope.finish().1[0].len(), 100);
    }

    #[test]
    fn a_lone_retransmission_survives_an_hour() {
        let mut marks = Marks::new(3600.0, 1000);
        for i in 0..3_000_000 {
            let seq = f64::from(i) * 1448.0;
            marks.push(f64::from(i) * 0.0012, seq, seq + 1448.0);
            if i == 1_234_567 {
                marks.push(f64::from(i) * 0.0012, 77.0, 99.0);
            }
        }
        assert!(marks.is_thinned());
        let marks = marks.finish();
        assert!(marks.len() <= 1000, "{}", marks.len());
        assert_eq!(marks.iter().map(|m| m.count).sum::<f64>(), 3_000_001.0);
        assert_eq!(marks.iter().filter(|m| m.seq == 77.0).count(), 1);
    }

    #[test]
    fn quantiles_reach_both_ends() {
        let (values, fractions) = quantiles((0..10_000).rev().map(f64::from).collect(), 100);
        assert_eq!((values[0], values[99], fractions[99], values.len()), (0.0, 9999.0, 1.0, 100));
        assert_eq!(quantiles(vec![f64::NAN], 10), (vec![], vec![]));
        assert_eq!(quantiles(vec![3.0], 10), (vec![3.0], vec![1.0]));
    }

    proptest! {
        #[test]
        fn an_envelope_keeps_every_extreme(values in proptest::collection::vec(-1e6..1e6f64, 1..400), limit in 4usize..100) {
            let mut envelope = Envelope::new(values.len() as f64, limit);
            for (i, &v) in values.iter().enumerate() {
                envelope.push(i as f64, [v]);
            }
            let thinned = envelope.is_thinned();
            let (times, [kept]) = envelope.finish();
            prop_assert!(kept.len() <= limit.max(4));
            prop_assert_eq!(thinned, values.len() > limit);
            prop_assert!(times.is_sorted());
            prop_assert_eq!(kept.iter().copied().fold(f64::MIN, f64::max), values.iter().copied().fold(f64::MIN, f64::max));
            prop_assert_eq!(kept.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(f64::MAX, f64::min));
            // Each kept row is one of the input.
            for (t, v) in times.iter().zip(&kept) {
                prop_assert_eq!(values[*t as usize], *v);
            }
        }

        #[test]
        fn a_grid_keeps_every_extreme(values in proptest::collection::vec(-1e6..1e6f64, 2..400), limit in 2usize..100) {
            let times: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
            if let Some(bins) = grid_bins(values.len(), limit) {
                let (kept, grid) = (thin_column(&values, &bins), thin_times(&times, &bins));
                prop_assert_eq!(kept.mean.len(), grid.len());
                prop_assert!(grid.len() <= limit && grid.is_sorted());
                let largest = |v: &[f64]| v.iter().copied().fold(f64::MIN, f64::max);
                let smallest = |v: &[f64]| v.iter().copied().fold(f64::MAX, f64::min);
                prop_assert_eq!(largest(&kept.high), largest(&values));
                prop_assert_eq!(smallest(&kept.low), smallest(&values));
                for i in 0..bins.len() {
                    prop_assert!(kept.low[i] <= kept.mean[i] + 1e-6 && kept.mean[i] <= kept.high[i] + 1e-6);
                }
            } else {
                prop_assert!(values.len() <= limit);
            }
        }

        #[test]
        fn marks_cover_what_was_marked(
            steps in proptest::collection::vec((0.0..1.0f64, 0u32..50, 1u32..20), 1..300), limit in 4usize..50,
        ) {
            let mut marks = Marks::new(300.0, limit);
            let mut time = 0.0;
            let mut pushed = Vec::new();
            for (gap, seq, len) in steps {
                time += gap;
                marks.push(time, f64::from(seq), f64::from(seq + len));
                pushed.push((time, f64::from(seq), f64::from(seq + len)));
            }
            let marks = marks.finish();
            prop_assert_eq!(marks.iter().map(|m| m.count).sum::<f64>(), pushed.len() as f64);
            for (time, seq, end) in pushed {
                prop_assert!(marks.iter().any(|m| m.start <= time && time <= m.stop && m.seq <= seq && end <= m.end));
            }
        }
    }
}
