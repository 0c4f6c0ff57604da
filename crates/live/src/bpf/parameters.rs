//! Parameters of TCP Nice as the programs in the kernel have them: a block of words.
//!
//! Names, defaults and ranges are those of [`NiceParams`]; `build/block.rs` lists the parameters that the programs know, and what a word counts.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use warpline_core::TimeDelta;
use warpline_core::parameter::{Field, Given, Parameters};
use warpline_transport::cc::NiceParams;

use super::BpfError;

#[path = "../../build/block.rs"]
#[allow(dead_code, reason = "the build lays out what this fills")]
mod block;

#[cfg(bpf_object)]
pub(super) use block::SEGMENT;
#[cfg(bpf_object)]
#[cfg(test)]
pub(super) use block::WHOLE;
use block::{Unit, WORDS};

/// `struct nice_parameters`: the layout, and the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(bpf_object), allow(dead_code))]
pub(super) struct Block([u32; WORDS.len() + 1]);

/// The word that says a parameter; `None` if the programs cannot count so far.
fn word(field: &Field<'_>, unit: Unit) -> Option<u32> {
    let size = match field.value.given() {
        Some(Given::Flag(flag)) => return Some(u32::from(flag)),
        _ => field.value.size()?,
    };
    if unit == Unit::Micros && size == TimeDelta::MAX.as_nanos() as f64 {
        return Some(u32::MAX);
    }
    // Never less: a little is not nothing, and two packets of five are not more than 0.4 of them.
    (size <= unit.most()).then_some((size * unit.scale()).ceil() as u32)
}

/// The value that a word says.
fn value(word: u32, unit: Unit) -> Given {
    let size = f64::from(word) / unit.scale();
    match unit {
        Unit::Flag => Given::Flag(word != 0),
        Unit::Part | Unit::Segments => Given::Number(size),
        Unit::Micros if word == u32::MAX => Given::Text("unlimited".to_owned()),
        Unit::Micros | Unit::Spans => Given::Text(TimeDelta::from_nanos(size as u64).to_string()),
    }
}

/// Checks that the programs in the kernel can follow `params`.
///
/// # Errors
/// If a parameter is out of its range, or larger than a word of the programs.
#[cfg_attr(not(bpf_object), allow(dead_code))]
pub(super) fn check(params: &NiceParams) -> Result<(), BpfError> {
    let mut params = *params;
    let all: &mut dyn Parameters = &mut params;
    if let Some(fault) = all.faults().into_iter().next() {
        return Err(BpfError::Parameter(fault.to_string()));
    }
    let fields = all.fields();
    let too_large = |(name, unit): &(&str, Unit)| {
        let field = fields.iter().find(|field| field.name == *name)?;
        let most = if *unit == Unit::Segments || *unit == Unit::Part {
            unit.most().to_string()
        } else {
            TimeDelta::from_nanos(unit.most() as u64).to_string()
        };
        let given = field.value.given()?;
        let text = format!("`{name}` is {given}; TCP Nice in the kernel takes at most {most}");
        word(field, *unit).is_none().then_some(text)
    };
    WORDS.iter().find_map(too_large).map_or(Ok(()), |text| Err(BpfError::Parameter(text)))
}

#[cfg_attr(not(bpf_object), allow(dead_code))]
impl Block {
    pub(super) const SIZE: usize = 4 * (WORDS.len() + 1);

    /// The block that says these parameters, which have passed [`check`].
    pub(super) fn of(params: &NiceParams) -> Self {
        let mut params = *params;
        let fields = params.fields();
        let mut words = [block::LAYOUT; WORDS.len() + 1];
        for (to, (name, unit)) in words[1..].iter_mut().zip(WORDS) {
            let field = fields.iter().find(|field| field.name == name);
            *to = field.and_then(|field| word(field, unit)).unwrap_or(u32::MAX);
        }
        Block(words)
    }

    pub(super) fn bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The block in these bytes; `None` if they are another version's.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Block> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let mut words = [0; WORDS.len() + 1];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(from.try_into().ok()?);
        }
        (words[0] == block::LAYOUT).then_some(Block(words))
    }

    /// The parameters that it says. One that is as in the nearer of the two variants is exactly that, not what remained of it in a word.
    pub(super) fn parameters(self) -> NiceParams {
        let same =
            |params: &NiceParams| self.0.iter().zip(Block::of(params).0).filter(|(a, b)| **a == *b).count();
        let (mut params, paper) = (NiceParams::default(), NiceParams::paper());
        if same(&paper) > same(&params) {
            params = paper;
        }
        let near = Block::of(&params);
        for (number, (name, unit)) in WORDS.into_iter().enumerate() {
            let word = self.0[number + 1];
            if word != near.0[number + 1]
                && let Some(field) = params.fields().into_iter().find(|field| field.name == name)
            {
                field.value.take(&value(word, unit));
            }
        }
        params
    }
}

/// Writes the parameters that the programs know, by their names.
pub(super) fn serialize<S: Serializer>(params: &Option<NiceParams>, to: S) -> Result<S::Ok, S::Error> {
    let named = params.map(|mut params| {
        let fields = params.fields();
        let known = fields.iter().filter(|field| WORDS.iter().any(|(name, _)| *name == field.name));
        let value = |field: &Field<'_>| match field.value.given() {
            Some(Given::Flag(flag)) => flag.into(),
            Some(Given::Number(number)) => number.into(),
            other => other.map_or(Value::Null, |given| given.to_string().into()),
        };
        known.map(|field| (field.name.to_owned(), value(field))).collect::<Map<_, _>>()
    });
    named.serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(change: impl FnOnce(&mut NiceParams)) -> Block {
        let mut params = NiceParams::default();
        change(&mut params);
        Block::of(&params)
    }

    #[test]
    fn parameters_survive_their_way_to_the_kernel() {
        let block = Block::of(&NiceParams::default());
        let words = [
            13108, 26215, 45876, 86, 4096, 12288, 4096, 6144, 32768, 131_072, 10_000, 16_384, 8192, 585_938,
            1, 1,
        ];
        assert_eq!((block.0[0], &block.0[1..]), (block::LAYOUT, &words[..]));
        assert_eq!(Block::from_bytes(&block.bytes()), Some(block));
        assert_eq!(block.parameters(), NiceParams::default());
        let paper = Block::of(&NiceParams::paper());
        assert_eq!(paper.0[8..], [4096, 0, 131_072, u32::MAX, 0, 8192, 0, 0, 0]);
        assert_eq!(paper.parameters(), NiceParams::paper());
        let other = Block::of(&NiceParams { threshold: 0.75, ..NiceParams::paper() });
        assert_eq!(other.parameters(), NiceParams { threshold: 0.75, ..NiceParams::paper() });
        let mut older = block.bytes();
        older[..4].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(Block::from_bytes(&older), None);
    }

    #[test]
    fn each_parameter_that_the_programs_know_has_a_word_of_its_own() {
        let mut plain = NiceParams::default();
        // Slow start is the kernel's, and the burst a constant.
        let mut slow_start = plain.slow_start;
        let unknown: Vec<&str> =
            slow_start.fields().iter().map(|field| field.name).chain(["variant", "burst"]).collect();
        assert_eq!(plain.burst, block::BURST);
        assert_eq!(NiceParams::MOST_REDUCTIONS, block::MOST_REDUCTIONS);
        assert_eq!(NiceParams::ACK_DELAY.as_nanos(), u64::from(block::ACK_DELAY) * 1000);
        for number in 0..plain.fields().len() {
            let name = plain.fields()[number].name;
            let changed = block(|params| {
                let field = &mut params.fields()[number];
                let value = match field.value.given().unwrap() {
                    Given::Flag(flag) => Given::Flag(!flag),
                    Given::Number(number) => Given::Number(number * 0.75),
                    Given::Text(text) if text.parse::<TimeDelta>().is_ok() => Given::Text("7ms".to_owned()),
                    other => other,
                };
                assert!(field.value.take(&value));
            });
            let before = Block::of(&plain).0;
            let differing: Vec<usize> = (0..before.len()).filter(|&i| before[i] != changed.0[i]).collect();
            match WORDS.iter().position(|(known, _)| *known == name) {
                Some(at) => assert_eq!(differing, [at + 1], "{name}"),
                None => assert!(unknown.contains(&name) && differing.is_empty(), "{name}: {differing:?}"),
            }
        }
    }

    #[test]
    fn parameters_that_the_programs_cannot_follow_are_refused() {
        let plain = NiceParams::default();
        assert!(check(&plain).is_ok() && check(&NiceParams::paper()).is_ok());
        for (wrong, part) in [
            (NiceParams { threshold: 1.1, ..plain }, "`threshold` is 1.1; allowed: 0 to 1"),
            (NiceParams { fraction: f64::NAN, ..plain }, "`fraction` is NaN; allowed: 0 to 1"),
            (NiceParams { floor: 0.0, ..plain }, "`floor` is 0; allowed: above 0 segments"),
            (NiceParams { beta: 0.5, ..plain }, "not below `alpha`"),
            (
                NiceParams { start: 2000.0, ..plain },
                "`start` is 2000; TCP Nice in the kernel takes at most 1000",
            ),
            (NiceParams { most_delay: TimeDelta::ZERO, ..plain }, "`most_delay` is 0s; allowed: above 0s"),
            (
                NiceParams { base_window: TimeDelta::from_secs(86_401), ..plain },
                "`base_window` is 86401s; TCP Nice in the kernel takes at most 86400s",
            ),
        ] {
            let error = check(&wrong).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
