//! `warpline enter`: a command, or a shell, on a host of a run in progress.

mod keys;
mod relay;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;

use clap::ValueHint;
use serde_json::{Value, json};
#[cfg(guests)]
use warpline_guest::door::{self as guest, DoorError};
#[cfg(guests)]
use warpline_guest::order::Ending;
use warpline_lab::run::control::Entrance;
use warpline_live::enter::{self as live, EnterError, is_there};

use self::relay::{Ended, Event, Far, Notes, is_typed, relay, size};
use super::control_args::{Control, ControlArgs, accepted};
use super::link_args::or_shell;
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
The run must have been started with --control, and its clock must be real or dilated. On
a live host the command has the host's network, and everything else of this machine:
files, users, programs. On a guest it is a program like those of the scenario. It ends
with the run. In its words, {server} is the address of the host `server`, and {server:6}
its IPv6 address; in its environment are WARPLINE_ADDR_SERVER and so on.

Commands become programs of the run's scenario.toml, with the times at which they began,
and so do the lines that are typed at a shell: running that repeats them.

Examples:
  In one terminal a run; in another one a ping from one of its hosts to another:
    warpline run scenarios/live-web.toml --control
    warpline enter client -- ping -c 3 {server}
  A shell on a host; and which hosts there are:
    warpline enter client
    warpline enter

Exit code: that of the command; 2 if there is no such host, 1 if no run answers.";

/// Run a command, or a shell, on a host of a run in progress
///
/// Without a host it lists those of the run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, override_usage = "warpline enter [OPTIONS] [HOST] [-- COMMAND...]")]
pub(crate) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// The host's name in the scenario
    host: Option<String>,
    /// The command and its arguments [default: your shell]
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let Some(host) = args.host else {
        let answer = accepted(args.control.ask(&json!({}))?)?;
        let hosts = answer["hosts"].as_array().into_iter().flatten();
        let names = hosts.filter_map(|own| own["host"].as_str());
        let names: String = names.map(|name| format!("{name}\n")).collect();
        if names.is_empty() {
            output::note("this run has no host on which a command could run");
        }
        output::print(&names)?;
        return Ok(Code::Success);
    };
    let (is_shell, typed) = (args.command.is_empty(), is_typed());
    let given: Vec<String> = or_shell(args.command)
        .into_iter()
        .map(|word| word.into_string().map_err(|word| Failure::usage(format!("{word:?} is not UTF-8"))))
        .collect::<Result<_, _>>()?;
    let control = args.control.find()?;
    let answer = accepted(control.ask(&json!({ "host": host, "command": given }))?)?;
    let unread = |error| Failure::run(format!("the run answers, but not as a run does: {error}"));
    let entrance: Entrance = serde_json::from_value(answer["entrance"].clone()).map_err(unread)?;
    let words: Vec<String> = serde_json::from_value(answer["command"].clone()).map_err(unread)?;
    let takes_lines = is_shell && typed;
    let mut desk = Desk { control, host: &host, takes_lines, last: None, unknown: 0, failed: 0 };
    match entrance {
        Entrance::Live(door) => {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let begins = !is_shell && is_there(&words[0]);
            if !typed {
                if begins {
                    desk.typed(&json!(given));
                }
                return Err(entered(door.become_command(&words)));
            }
            let mut inside = door.begin(&words, size()).map_err(entered)?;
            if begins {
                desk.typed(&json!(given));
            }
            desk.relay(&mut inside, typed)
        }
        #[cfg(guests)]
        Entrance::Guest(door) => {
            let term = std::env::var("TERM").map(|term| ("TERM".to_owned(), term));
            let environment: Vec<_> = term.into_iter().collect();
            let inside = door.begin(&words, &environment, size(), typed);
            let mut inside = inside.map_err(|error| match error {
                DoorError::NotThere(why) => Failure::no_program(why),
                DoorError::NotStarted(why) => Failure::not_started(why),
                error => Failure::run(error),
            })?;
            if !is_shell {
                desk.typed(&json!(given));
            }
            desk.relay(&mut inside, typed)
        }
    }
}

fn entered(error: EnterError) -> Failure {
    match error {
        EnterError::Start(error) => error.into(),
        error => Failure::run(error),
    }
}

/// Tells the run what is typed on a host.
struct Desk<'a> {
    control: Control,
    host: &'a str,
    /// Whether the first command is a shell, to which lines are typed as commands.
    takes_lines: bool,
    /// The run's number of the last command.
    last: Option<Value>,
    /// Lines whose text is not known.
    unknown: usize,
    /// Commands of which the run could not be told.
    failed: usize,
}

impl Desk<'_> {
    /// A command begins.
    fn typed(&mut self, command: &Value) {
        let answer = self.control.ask(&json!({ "host": self.host, "typed": command }));
        self.last = answer.ok().map(|answer| answer["number"].clone()).filter(Value::is_u64);
        self.failed += usize::from(self.last.is_none());
    }

    /// Joins this terminal to the one on the host.
    fn relay(&mut self, inside: &mut dyn Far, typed: bool) -> Result<Code, Failure> {
        let ended = relay(inside, self, typed).map_err(Failure::run)?;
        for (count, why) in [
            (self.unknown, "only the shell knows their text: they were completed, or came from its history"),
            (self.failed, "the run did not answer"),
        ] {
            if count > 0 {
                output::note(&format!("not in the run's scenario: {count} of the lines; {why}"));
            }
        }
        match ended {
            Ended::Code(code) => Ok(code),
            Ended::Over => Err(Failure::run("the run is over")),
        }
    }
}

impl Notes for Desk<'_> {
    fn line(&mut self, text: Option<&str>) {
        match text {
            _ if !self.takes_lines => {}
            // They would end or do nothing.
            Some("" | "exit" | "logout") => {}
            Some(line) => self.typed(&json!(line)),
            None => (self.last, self.unknown) = (None, self.unknown + 1),
        }
    }

    fn interrupt(&mut self, first: bool) {
        // A shell that waits for a line takes it for itself.
        if !(self.takes_lines && first)
            && let Some(number) = self.last.take()
        {
            let _ = self.control.ask(&json!({ "interrupted": number }));
        }
    }
}

impl Far for live::Inside {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd()
    }

    fn take(&mut self) -> Option<Event> {
        Some(match self.take()? {
            live::Event::Printed(bytes) => Event::Printed(bytes),
            live::Event::Passed(count, first) => Event::Passed(count, first),
            live::Event::Ended(status) => Event::Ended(Ended::Code(status.map_or(Code::Failed, Code::from))),
        })
    }

    fn type_in(&mut self, bytes: &[u8]) -> usize {
        self.type_in(bytes)
    }

    // Somebody types there: keys do both.
    fn end_input(&mut self) {}

    fn signal(&mut self, _: i32) {}

    fn resize(&mut self, rows: u16, columns: u16) {
        self.resize(rows, columns);
    }
}

#[cfg(guests)]
impl Far for guest::Inside {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd()
    }

    fn take(&mut self) -> Option<Event> {
        Some(match self.take()? {
            guest::Event::Printed(bytes) => Event::Printed(bytes),
            guest::Event::Complained(bytes) => Event::Complained(bytes),
            guest::Event::Passed(count, first) => Event::Passed(count, first),
            guest::Event::Ended(ending) => Event::Ended(match ending {
                Ending::Exited(code) => Ended::Code(Code::returned(code)),
                Ending::Signalled(signal) => Ended::Code(Code::signalled(signal)),
                Ending::NotStarted(_) | Ending::Stopped => Ended::Over,
            }),
        })
    }

    fn type_in(&mut self, bytes: &[u8]) -> usize {
        self.type_in(bytes)
    }

    fn signal(&mut self, signal: i32) {
        self.signal(signal);
    }

    fn end_input(&mut self) {
        self.end_input();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.resize(rows, columns);
    }
}
