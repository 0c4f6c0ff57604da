//! Functions of floating-point numbers that give the same bits on every machine and in every build.
//!
//! IEEE 754 fixes addition, multiplication, division, the square root and rounding to the last bit, but neither logarithms, exponentials,
//! powers nor roots of a higher order. The standard library takes these from the C library, where they differ between versions and
//! processors, or lets the compiler choose the order of multiplications (`powi`), which differs between builds. Here they come from the
//! crate `libm`, which is written in Rust. Its feature `arch`, which other crates may turn on, replaces only functions that IEEE 754
//! fixes. `clippy.toml` forbids the standard library's.

/// Natural logarithm of `x`: negative infinity for 0, NaN below.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Logarithm of `x` to base 10: negative infinity for 0, NaN below.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `x` to the power of `y`.
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Cube root of `x`.
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

// Under Miri these take an hour, and functions of the standard library are made to differ on purpose.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Arguments over many orders of magnitude, spread by a fixed rule.
    fn arguments() -> impl Iterator<Item = f64> {
        (1..=10_000u64).map(|n| {
            let mantissa =
                f64::from_bits(0x3ff0_0000_0000_0000 | (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12));
            mantissa * [1e-9, 1e-4, 0.1, 0.5, 1.0, 3.0, 20.0, 1e5, 1e12][n as usize % 9]
        })
    }

    /// FNV-1a over the bits of all values.
    fn digest(values: impl Iterator<Item = f64>) -> u64 {
        values.flat_map(|value| value.to_bits().to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    #[test]
    fn the_bits_are_these_everywhere() {
        // A different digest means that the results of runs have changed.
        let digests = [
            digest(arguments().map(ln)),
            digest(arguments().map(|x| exp(-x.min(700.0)))),
            digest(arguments().map(|x| powf(x, 1.0 / 1.2))),
            digest(arguments().map(|x| powf(0.998, x))),
            digest(arguments().map(cbrt)),
        ];
        let expected: [u64; 5] = [
            0x7809_e87a_beea_3840,
            0x8773_c04a_b6d5_429a,
            0xa776_9e5b_7b43_e54e,
            0xae65_6c78_33da_b305,
            0x2123_efc0_4432_6ed0,
        ];
        assert_eq!(digests.map(|d| format!("{d:#018x}")), expected.map(|d| format!("{d:#018x}")));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is compared with")]
    fn they_are_the_functions_they_are_called_after() {
        for x in arguments() {
            for (name, ours, other) in [
                ("ln", ln(x), x.ln()),
                ("exp", exp(-x.min(700.0)), (-x.min(700.0)).exp()),
                ("powf", powf(x, 0.3), x.powf(0.3)),
                ("cbrt", cbrt(x), x.cbrt()),
            ] {
                assert!(
                    (ours - other).abs() <= 4.0 * f64::EPSILON * other.abs(),
                    "{name} of {x}: {ours}, {other}"
                );
            }
        }
        assert_eq!((ln(1.0), exp(0.0), powf(0.0, 2.0), cbrt(-27.0)), (0.0, 1.0, 0.0, -3.0));
    }
}
