//! How long a guest that has the turn has shown no activity: it hangs, or the machine is busy with other work.

/// How long a guest has made no entry into user mode, and what its processes have done meanwhile.
///
/// What counts is the time that they could run in: beside other work, the machine's clock goes further while they wait for a processor, and
/// whether a run fails must not depend on that.
pub(crate) struct Stillness {
    entries: u64,
    user: i32,
    /// When the last look was.
    last: u64,
    /// What the program had used of a processor when the last entry was seen, and at the last look.
    user_used: [u64; 2],
    /// What the kernel had used of a processor at the last look.
    kernel_used: u64,
    /// For how long there was neither an entry nor a program that computes, in nanoseconds.
    pub(crate) silence: u64,
}

/// What a process does.
#[derive(Clone, Copy)]
struct Vitals {
    /// For how long it has had a processor, in nanoseconds.
    used: u64,
    /// Whether it runs, or waits for a processor.
    runnable: bool,
}

impl Stillness {
    pub(crate) fn new(now: u64) -> Self {
        Stillness { entries: u64::MAX, user: 0, last: now, user_used: [0; 2], kernel_used: 0, silence: 0 }
    }

    /// Looks at the guest: how many entries it has made, the program that it runs (0: none) and its kernel, by their process numbers. Returns
    /// for how long the program has computed since the last entry, in nanoseconds.
    pub(crate) fn look(&mut self, now: u64, entries: u64, user: i32, kernel: i32) -> u64 {
        self.note(now, entries, user, vitals(user), vitals(kernel))
    }

    fn note(
        &mut self,
        now: u64,
        entries: u64,
        user: i32,
        program: Option<Vitals>,
        kernel: Option<Vitals>,
    ) -> u64 {
        let passed = now - self.last;
        self.last = now;
        let kernel_used = kernel.map_or(0, |kernel| kernel.used);
        let kernel_ran = kernel_used.saturating_sub(std::mem::replace(&mut self.kernel_used, kernel_used));
        if (entries, user) != (self.entries, self.user) {
            let used = program.map_or(0, |program| program.used);
            (self.entries, self.user, self.user_used, self.silence) = (entries, user, [used; 2], 0);
            return 0;
        }
        // Without statistics of the scheduler there is only the machine's clock.
        let [begin, before] = self.user_used;
        let used = program.map_or(before + passed, |program| program.used.max(before));
        self.user_used[1] = used;
        self.silence = match (program, kernel) {
            (Some(_), _) if used > before => 0,
            (Some(program), _) if program.runnable => self.silence,
            // A kernel that works counts for as much as it works: it may do so for ever.
            (_, Some(kernel)) if kernel.runnable => self.silence + kernel_ran,
            _ => self.silence + passed,
        };
        used - begin
    }
}

/// What a process does; none if the system does not say.
fn vitals(process: i32) -> Option<Vitals> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    let used = text.split(' ').next()?.parse().ok()?;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in brackets, may hold anything.
    let state = text.rsplit_once(") ")?.1.chars().next()?;
    Some(Vitals { used, runnable: matches!(state, 'R' | 'D') })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(used: u64, runnable: bool) -> Option<Vitals> {
        Some(Vitals { used: used * SECOND, runnable })
    }

    #[test]
    fn a_guest_that_waits_for_a_processor_is_not_silent() {
        let mut still = Stillness::new(0);
        still.note(0, 7, 0, None, at(5, true));
        for second in 1..=60 {
            still.note(second * SECOND, 7, 0, None, at(5, true));
        }
        assert_eq!(still.silence, 0);
        // It works for two of the next three seconds.
        still.note(63 * SECOND, 7, 0, None, at(7, true));
        assert_eq!(still.silence, 2 * SECOND);
        // An entry ends that.
        still.note(64 * SECOND, 8, 0, None, at(7, true));
        assert_eq!(still.silence, 0);
    }

    #[test]
    fn a_guest_that_sleeps_with_the_turn_is_silent() {
        let mut still = Stillness::new(0);
        still.note(0, 7, 3, at(1, false), at(5, false));
        still.note(9 * SECOND, 7, 3, at(1, false), at(5, false));
        assert_eq!(still.silence, 9 * SECOND);
    }

    #[test]
    fn a_program_computes_for_as_long_as_it_has_a_processor() {
        let mut still = Stillness::new(0);
        assert_eq!(still.note(0, 7, 3, at(1, true), at(5, false)), 0);
        assert_eq!(still.note(9 * SECOND, 7, 3, at(2, true), at(5, false)), SECOND);
        assert_eq!(still.note(19 * SECOND, 7, 3, at(2, true), at(5, false)), SECOND);
        assert_eq!(still.silence, 0);
        // Without statistics by the machine's clock.
        let mut still = Stillness::new(0);
        still.note(0, 7, 3, None, None);
        assert_eq!(still.note(4 * SECOND, 7, 3, None, None), 4 * SECOND);
        assert_eq!(still.silence, 4 * SECOND);
    }
}
