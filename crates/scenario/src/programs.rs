//! The programs of a whole scenario: which one a name stands for, and which others a program waits for.

use super::Scenario;
use super::host::Host;
use super::program::Program;

/// The program that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// One program, by the index of its host's entry and its own index there.
    One(usize, usize),
    /// There is none.
    Unknown,
    /// There are several.
    Several,
}

impl Scenario {
    /// All programs, each with the index of its host's entry and its own index there.
    pub fn programs(&self) -> impl Iterator<Item = (usize, usize, &Host, &Program)> {
        self.host.iter().enumerate().flat_map(|(i, host)| {
            host.programs().iter().enumerate().map(move |(number, program)| (i, number, host, program))
        })
    }

    /// The program that "NAME", "HOST.NAME", or "HOST" (a host with one program) stands for.
    pub fn program_named(&self, name: &str) -> Named {
        let all = || self.programs();
        let full = all().filter(|(_, number, host, program)| {
            name.strip_prefix(host.name.as_str())
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|label| label == program.label(*number))
        });
        let plain = all().filter(|(_, _, _, program)| program.name.as_deref() == Some(name));
        let only = all().filter(|(_, _, host, _)| host.name == name && host.programs().len() == 1);
        for found in [full.collect::<Vec<_>>(), plain.collect(), only.collect()] {
            match found.as_slice() {
                [] => {}
                [(host, number, ..)] => return Named::One(*host, *number),
                _ => return Named::Several,
            }
        }
        Named::Unknown
    }

    /// The programs that a program waits for. Names that stand for no program are left out.
    pub fn waits_for(&self, host: usize, number: usize) -> Vec<(usize, usize)> {
        let Some(program) = self.host.get(host).and_then(|host| host.programs().get(number)) else {
            return Vec::new();
        };
        match &program.after {
            Some(names) => {
                let one = |name: &String| match self.program_named(name) {
                    Named::One(host, number) => Some((host, number)),
                    Named::Unknown | Named::Several => None,
                };
                names.iter().filter_map(one).collect()
            }
            None if program.ready.is_some() => Vec::new(),
            None => {
                let first = self
                    .programs()
                    .filter(|(.., other)| other.ready.is_some() && other.start <= program.start);
                first.map(|(host, number, ..)| (host, number)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_waits_for_those_in_after_or_else_for_all_that_have_ready() {
        let waits = |server: &str, client: &str| {
            let text = format!(
                "duration = \"9s\"\nclock = {{ mode = \"real\" }}\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n\
                 [[host]]\nname = \"a\"\nendpoint = \"live\"\n[[host.program]]\nname = \"server\"\ncommand = \"x\"\n{server}\n\
                 [[host]]\nname = \"b\"\nendpoint = \"live\"\n[[host.program]]\ncommand = \"y\"\n{client}\n"
            );
            Scenario::from_toml("test.toml", &text, &[]).unwrap().waits_for(1, 0)
        };
        assert_eq!(waits("", ""), []);
        assert_eq!(waits("ready = 1", ""), [(0, 0)]);
        assert_eq!(waits("ready = 1\nstart = \"2s\"", "start = \"1s\""), []);
        assert_eq!(waits("ready = 1\nstart = \"2s\"", "after = [\"server\"]"), [(0, 0)]);
        assert_eq!(waits("ready = 1", "after = []"), []);
        assert_eq!(waits("ready = 1", "ready = 2"), []);
        assert_eq!(waits("ready = 1", "after = [\"a.server\"]\nready = 2"), [(0, 0)]);
        assert_eq!(waits("ready = 1", "after = [\"a\"]"), [(0, 0)]);
    }
}
