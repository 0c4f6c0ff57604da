//! Counters that only grow, and by how much they would have grown in another length of time.
//!
//! A struct that [`counters!`](crate::counters) declares is a [`Counter`] whose fields are; so a sum over several of them, a difference and an
//! extrapolation need no list of the fields of their own.

use crate::time::TimeDelta;

/// How much longer or shorter one span of time is than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The span that is asked for.
    pub span: TimeDelta,
    /// The span in which something was counted; not zero.
    pub of: TimeDelta,
}

impl Ratio {
    /// As much as was counted.
    pub const ONE: Ratio = Ratio { span: TimeDelta::from_nanos(1), of: TimeDelta::from_nanos(1) };

    /// `count` in the span that is asked for, rounded to the nearest whole number, halves up.
    pub fn scale(self, count: u64) -> u64 {
        let of = u128::from(self.of.as_nanos().max(1));
        let scaled = (u128::from(count) * u128::from(self.span.as_nanos()) * 2 + of) / (2 * of);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// What counts something from the start of a run on.
pub trait Counter {
    /// By how much it has grown since it was `before`, scaled. What is no count, such as an extreme, is left out.
    #[must_use]
    fn growth(&self, before: &Self, ratio: Ratio) -> Self;
    /// Adds what another one has counted.
    fn merge(&mut self, more: &Self);
}

impl Counter for u64 {
    fn growth(&self, before: &u64, ratio: Ratio) -> u64 {
        ratio.scale(self.saturating_sub(*before))
    }
    fn merge(&mut self, more: &u64) {
        *self = self.saturating_add(*more);
    }
}

/// A sum of spans.
impl Counter for TimeDelta {
    fn growth(&self, before: &TimeDelta, ratio: Ratio) -> TimeDelta {
        TimeDelta::from_nanos(ratio.scale(self.saturating_sub(*before).as_nanos()))
    }
    fn merge(&mut self, more: &TimeDelta) {
        *self = TimeDelta::from_nanos(self.as_nanos().saturating_add(more.as_nanos()));
    }
}

/// The shortest span, which is no count.
impl Counter for Option<TimeDelta> {
    fn growth(&self, _: &Option<TimeDelta>, _: Ratio) -> Option<TimeDelta> {
        None
    }
    fn merge(&mut self, more: &Option<TimeDelta>) {
        *self = self.iter().chain(more).min().copied();
    }
}

/// The counters of something that most do not have.
impl<C: Counter + Default> Counter for Option<Box<C>> {
    fn growth(&self, before: &Option<Box<C>>, ratio: Ratio) -> Option<Box<C>> {
        let none = C::default();
        self.as_ref().map(|now| Box::new(now.growth(before.as_deref().unwrap_or(&none), ratio)))
    }
    fn merge(&mut self, more: &Option<Box<C>>) {
        if let Some(more) = more {
            self.get_or_insert_default().merge(more);
        }
    }
}

/// Declares a struct of counters, which is itself a [`Counter`](crate::counter). What `state` lists is none: it is a present state or an extreme, does not
/// grow with time, and is not added to.
///
/// ```
/// use warpline_core::counter::{Counter, Ratio};
/// use warpline_core::{TimeDelta, counters};
///
/// counters! {
///     /// What a door counts.
///     #[derive(Clone, Copy, Debug, Default, PartialEq)]
///     pub struct Door {
///         counts {
///             /// People who came in.
///             pub entered: u64,
///         }
///         state {
///             /// Whether it is open.
///             pub open: bool,
///         }
///     }
/// }
///
/// let (before, now) = (Door { entered: 10, open: true }, Door { entered: 16, open: true });
/// let ratio = Ratio { span: TimeDelta::from_secs(20), of: TimeDelta::from_secs(60) };
/// assert_eq!(now.growth(&before, ratio), Door { entered: 2, open: false });
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {
            counts { $( $(#[$about:meta])* $shown:vis $count:ident: $type:ty, )* }
            state { $( $(#[$state_about:meta])* $state_shown:vis $state:ident: $state_type:ty, )* }
        }
    ) => {
        $(#[$attribute])*
        $visible struct $name {
            $( $(#[$about])* $shown $count: $type, )*
            $( $(#[$state_about])* $state_shown $state: $state_type, )*
        }

        impl $crate::counter::Counter for $name {
            fn growth(&self, before: &Self, ratio: $crate::counter::Ratio) -> Self {
                $name {
                    $( $count: $crate::counter::Counter::growth(&self.$count, &before.$count, ratio), )*
                    $( $state: Default::default(), )*
                }
            }
            fn merge(&mut self, more: &Self) {
                $( $crate::counter::Counter::merge(&mut self.$count, &more.$count); )*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_the_nearest_and_do_not_overflow() {
        let third = Ratio { span: TimeDelta::from_secs(1), of: TimeDelta::from_secs(3) };
        assert_eq!([0, 1, 2, 4, 5].map(|count| third.scale(count)), [0, 0, 1, 1, 2]);
        let huge = Ratio { span: TimeDelta::from_secs(1 << 33), of: TimeDelta::from_nanos(1) };
        assert_eq!(huge.scale(u64::MAX), u64::MAX);
        assert_eq!(7u64.growth(&9, Ratio::ONE), 0);
        assert_eq!(
            TimeDelta::from_millis(9).growth(&TimeDelta::from_millis(3), third),
            TimeDelta::from_millis(2)
        );
    }
}
