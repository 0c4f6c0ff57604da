//! Columns of numbers, and how they are packed into the page: base64 of little-endian typed arrays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How exactly a column must survive when it is not made of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// As 64-bit floats.
    Double,
    /// As 32-bit floats: seven digits, enough to draw and to read off.
    Single,
}

/// A column of numbers; NaN stands for "no value".
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// The stored numbers. What is meant is each of them divided by `divisor`.
    pub values: Vec<f64>,
    /// 1, or for example 10⁹ where nanoseconds are stored and seconds are meant: integers pack better.
    pub divisor: f64,
    /// Needed when the numbers are not integers.
    pub precision: Precision,
}

impl Default for Column {
    fn default() -> Self {
        Column::double(Vec::new())
    }
}

impl Column {
    /// A column that keeps all digits.
    pub fn double(values: Vec<f64>) -> Self {
        Column { values, divisor: 1.0, precision: Precision::Double }
    }

    /// A column for which seven digits are enough.
    pub fn single(values: Vec<f64>) -> Self {
        Column { values, divisor: 1.0, precision: Precision::Single }
    }

    /// Times in whole nanoseconds, which the page reads as seconds.
    pub fn nanoseconds(values: Vec<f64>) -> Self {
        Column { values, divisor: 1e9, precision: Precision::Double }
    }

    /// Durations in whole nanoseconds, which the page reads as milliseconds.
    pub fn milliseconds(nanoseconds: Vec<f64>) -> Self {
        Column { values: nanoseconds, divisor: 1e6, precision: Precision::Single }
    }

    /// Packs the column: integers as the narrowest of 8, 16 and 32 bits, plain or as differences from the row before,
    /// whichever is smaller; all else as floats.
    fn pack(&self) -> Packed {
        let whole = |v: &f64| v.is_finite() && v.fract() == 0.0 && v.abs() <= MAX_SAFE_INTEGER;
        if !self.values.iter().all(whole) {
            return match self.precision {
                Precision::Double => {
                    Packed::floats("f64", self.values.iter().flat_map(|v| v.to_le_bytes()).collect())
                }
                Precision::Single => Packed::floats(
                    "f32",
                    self.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
                ),
            };
        }
        let first = self.values.first().copied().unwrap_or(0.0);
        let differences: Vec<f64> =
            self.values.iter().scan(first, |before, &v| Some(v - std::mem::replace(before, v))).collect();
        let (plain, delta) = (width(&self.values), width(&differences));
        match (plain, delta) {
            (Some(plain), delta) if delta.is_none_or(|delta| plain <= delta) => {
                Packed { base: 0.0, delta: false, ..Packed::integers(plain, &self.values) }
            }
            (_, Some(delta)) => Packed { base: first, delta: true, ..Packed::integers(delta, &differences) },
            _ => Packed::floats("f64", self.values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        }
    }
}

/// 2⁵³: beyond it a float cannot tell neighbouring integers apart.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The narrowest signed integer, in bytes, that holds all of `values`; none when 32 bits are too few.
fn width(values: &[f64]) -> Option<usize> {
    let (low, high) = values.iter().fold((0.0f64, 0.0f64), |(low, high), &v| (low.min(v), high.max(v)));
    let fits = |low_limit: f64, high_limit: f64| low >= low_limit && high <= high_limit;
    if fits(f64::from(i8::MIN), f64::from(i8::MAX)) {
        Some(1)
    } else if fits(f64::from(i16::MIN), f64::from(i16::MAX)) {
        Some(2)
    } else if fits(f64::from(i32::MIN), f64::from(i32::MAX)) {
        Some(4)
    } else {
        None
    }
}

/// The bytes of a column, and what the page must know to undo the packing.
struct Packed {
    kind: &'static str,
    base: f64,
    delta: bool,
    bytes: Vec<u8>,
}

impl Packed {
    fn floats(kind: &'static str, bytes: Vec<u8>) -> Self {
        Packed { kind, base: 0.0, delta: false, bytes }
    }

    fn integers(width: usize, values: &[f64]) -> Self {
        // The casts are exact: the caller has measured the values.
        let (kind, bytes) = match width {
            1 => ("i8", values.iter().flat_map(|&v| (v as i8).to_le_bytes()).collect()),
            2 => ("i16", values.iter().flat_map(|&v| (v as i16).to_le_bytes()).collect()),
            _ => ("i32", values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect()),
        };
        Packed::floats(kind, bytes)
    }
}

/// Collects the packed columns of a page. The page holds each in an element of its own, so that it is decoded only when
/// a plot that needs it comes into view.
#[derive(Default)]
pub(super) struct Blobs {
    /// Base64 texts; the index is the column's number.
    pub(super) texts: Vec<String>,
}

impl Blobs {
    /// Stores a column and returns its descriptor for the page: `c` number, `t` element type, `n` rows, `b` first value,
    /// `d` 1 where rows are differences, `s` divisor.
    pub(super) fn add(&mut self, column: &Column) -> Value {
        let packed = column.pack();
        self.texts.push(STANDARD.encode(&packed.bytes));
        json!({
            "c": self.texts.len() - 1,
            "t": packed.kind,
            "n": column.values.len(),
            "b": packed.base,
            "d": u8::from(packed.delta),
            "s": column.divisor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the page does, in Rust.
    fn decode(descriptor: &Value, text: &str) -> Vec<f64> {
        let bytes = STANDARD.decode(text).unwrap();
        let raw: Vec<f64> = match descriptor["t"].as_str().unwrap() {
            "i8" => bytes.iter().map(|&b| f64::from(b as i8)).collect(),
            "i16" => {
                bytes.chunks_exact(2).map(|b| f64::from(i16::from_le_bytes(b.try_into().unwrap()))).collect()
            }
            "i32" => {
                bytes.chunks_exact(4).map(|b| f64::from(i32::from_le_bytes(b.try_into().unwrap()))).collect()
            }
            "f32" => {
                bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
            }
            _ => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        };
        assert_eq!(raw.len() as u64, descriptor["n"].as_u64().unwrap());
        if descriptor["d"] == 0 {
            return raw;
        }
        let mut sum = descriptor["b"].as_f64().unwrap();
        raw.iter()
            .map(|v| {
                sum += v;
                sum
            })
            .collect()
    }

    fn round_trip(column: &Column) -> (Value, Vec<f64>) {
        let mut blobs = Blobs::default();
        let descriptor = blobs.add(column);
        let values = decode(&descriptor, &blobs.texts[0]);
        (descriptor, values)
    }

    #[test]
    fn the_narrowest_form_is_chosen() {
        for (values, kind, delta) in [
            (vec![0.0, 1.0, -3.0], "i8", 0),
            (vec![1000.0, 1001.0, 1002.0], "i8", 1),
            (vec![30_000.0, -30_000.0], "i16", 0),
            (vec![5e12, 5e12 + 1e6], "i32", 1),
            (vec![0.0, 5e12], "f64", 0),
            (vec![0.5], "f64", 0),
            (vec![], "i8", 0),
        ] {
            let (descriptor, back) = round_trip(&Column::double(values.clone()));
            assert_eq!((descriptor["t"].as_str().unwrap(), descriptor["d"].as_u64().unwrap()), (kind, delta));
            assert_eq!(back, values);
        }
    }

    #[test]
    fn missing_values_stay_missing() {
        let (descriptor, back) = round_trip(&Column::single(vec![1.0, f64::NAN, 3.0]));
        assert_eq!(descriptor["t"], "f32");
        assert!(back[1].is_nan() && back[0] == 1.0 && back[2] == 3.0);
    }

    proptest! {
        #[test]
        fn doubles_survive(values in proptest::collection::vec(any::<f64>().prop_filter("NaN", |v| !v.is_nan()), 0..50)) {
            prop_assert_eq!(round_trip(&Column::double(values.clone())).1, values);
        }

        #[test]
        fn integers_survive(values in proptest::collection::vec(-9_007_199_254_740_992i64..9_007_199_254_740_992, 0..50)) {
            let values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
            prop_assert_eq!(round_trip(&Column::nanoseconds(values.clone())).1, values);
        }
    }
}
