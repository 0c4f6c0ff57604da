//! Changes of links while a live run goes on, which come by a control socket (`warpline set`).
//!
//! A desk reads requests on the socket's thread. It checks them as a scenario's own `[[change]]`, and posts what is to be done. The emulator's
//! thread finds that in its [`Orders`], does it at once, and keeps it: so the scenario of what has happened can be written.
//!
//! A request is a line of JSON: `{}` asks what the links are like, `{"link": "r1-r2", "set": {"rate": "5Mbit/s"}}` changes one. The answer is a line, too:
//! the time of the run and what each of these links is like now, or `{"error": "..."}`. `{"host": "client", "command": ["ping", "{server}"]}` asks for the way
//! into a host (`warpline enter`), and for the words of a command there, with the addresses of hosts in place of their names.
//! `{"host": "client", "typed": ["ping", "{server}"]}` says that this begins there now, and `{"interrupted": 0}` that the first of these commands was interrupted.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Map, Value, json};
use warpline_core::{LinkId, Streams, TimeDelta, Timestamp};
use warpline_live::control::{ControlError, Inbox, Place, Post, Serving, Socket, post};
use warpline_net::{ChangeError, LinkChange, Network};
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::files::Files;
use warpline_scenario::plan::link_change;
use warpline_scenario::{
    BitRate, Change, Diagnostics, Expanded, LinkKind, ProgramCommand, Scenario, Speed, Time, spelling_help,
};

use super::Listen;
pub use super::entrance::Entrance;
use super::links::{BOTH, Duplex};
use super::programs;
use super::typed::{self, Typed};

/// How long the emulator may take to make a change: it looks many times in a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// The changes of single directions, as the network makes them.
type OnLinks = Vec<(LinkId, LinkChange)>;

/// What the emulator is to do or to note.
#[derive(Debug)]
enum Task {
    /// It changes links.
    Change(Vec<Change>, OnLinks),
    /// It notes that a command has begun on a host.
    Typed(String, ProgramCommand),
    /// It notes that the command with this number was interrupted.
    Interrupted(usize),
}

/// The answer to a task that was done.
#[derive(Clone, Copy, Debug)]
struct Done {
    /// The time of the run at which it was.
    at: Timestamp,
    /// How many commands were typed on hosts so far.
    typed: usize,
}

/// Who decides on an order, which can be taken once: by the emulator, which does it then, or by the desk, which withdraws it.
#[derive(Clone, Debug, Default)]
struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Takes the order. Returns whether it was still to be had.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// A task, and the way back for its answer.
#[derive(Debug)]
struct Order {
    task: Task,
    claim: Claim,
    reply: Sender<Result<Done, ChangeError>>,
}

/// An order as the desk waits for it.
#[derive(Debug)]
struct Awaited {
    claim: Claim,
    replied: Receiver<Result<Done, ChangeError>>,
}

impl Order {
    /// The order to do a task, and its answer.
    fn new(task: Task) -> (Order, Awaited) {
        let (reply, replied) = channel();
        let claim = Claim::default();
        (Order { task, claim: claim.clone(), reply }, Awaited { claim, replied })
    }
}

impl Awaited {
    /// The answer, for which it waits so long. What the emulator has not begun by then is withdrawn, so that nothing is done that the desk does not know.
    fn within(self, patience: Duration) -> Result<Done, String> {
        let replied = match self.replied.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) if self.claim.take() => {
                return Err(format!(
                    "the run has not got to this within {} s, so it was withdrawn; ask again",
                    patience.as_secs()
                ));
            }
            // It is being done at this moment.
            Err(RecvTimeoutError::Timeout) => self.replied.recv().ok(),
            replied => replied.ok(),
        };
        replied.ok_or_else(over)?.map_err(|error| error.to_string())
    }
}

/// Why nothing can be ordered any more.
fn over() -> String {
    "the run is over".to_owned()
}

/// How links are called besides their names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Naming {
    /// What all links together are called, and are meant if none is named; none if one has to be named.
    pub(super) all: Option<&'static str>,
}

/// Takes requests, on the thread of the socket.
#[derive(Debug)]
struct Desk {
    scenario: Scenario,
    expanded: Expanded,
    naming: Naming,
    /// Which links have no rate limit at first, though their scenario needs a rate.
    unlimited: Vec<LinkId>,
    /// The ways into hosts, by their names.
    entrances: BTreeMap<String, Entrance>,
    /// The changes made so far.
    made: Vec<Change>,
    post: Post<Order>,
}

/// What comes to the emulator's thread.
#[derive(Debug)]
pub struct Orders {
    inbox: Inbox<Order>,
    streams: Streams,
    /// When the scenario plans changes.
    planned: Vec<Timestamp>,
    /// The changes made so far, in order of time.
    made: Vec<Change>,
    /// The commands typed on hosts so far, in order of time.
    typed: Vec<Typed>,
}

/// A control socket before the run begins.
#[derive(Debug)]
pub struct Waiting {
    socket: Socket,
    desk: Desk,
}

impl Waiting {
    /// Where the socket is.
    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// Lets commands in at these hosts, by their names.
    pub(super) fn let_in(&mut self, entrances: BTreeMap<String, Entrance>) {
        self.desk.entrances.extend(entrances);
    }

    /// The run begins: serves what has come, and what will. To be called once the process is in its namespaces.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn begin(self) -> Result<Serving, ControlError> {
        let Waiting { socket, mut desk } = self;
        socket.serve(move |line| desk.answer(line))
    }
}

/// Makes the control socket of a run. `unlimited` are the links without a rate limit. To be called from a process with one thread.
///
/// # Errors
/// If there cannot be one there.
pub(super) fn listen(
    place: &Listen,
    scenario: &Scenario,
    naming: Naming,
    unlimited: Vec<LinkId>,
) -> Result<(Waiting, Orders), ControlError> {
    let place = match place {
        Listen::Own => Place::Own,
        Listen::At(path) => Place::At(path.clone()),
    };
    let socket = Socket::bind(&place, &scenario.name)?;
    let system = |source| ControlError::System { what: "serve", path: socket.path().to_owned(), source };
    let (post, inbox) = post().map_err(system)?;
    let expanded = scenario.expand();
    let desk = Desk {
        scenario: scenario.clone(),
        expanded,
        naming,
        unlimited,
        entrances: BTreeMap::new(),
        made: Vec::new(),
        post,
    };
    let planned = scenario.change.iter().map(|change| Timestamp::ZERO + change.at.0).collect();
    let orders =
        Orders { inbox, streams: Streams::new(scenario.seed), planned, made: Vec::new(), typed: Vec::new() };
    Ok((Waiting { socket, desk }, orders))
}

/// Makes the control socket of a live link that is no run, for both of its directions. To be called from a process with one thread.
///
/// # Errors
/// If there cannot be one there.
pub fn listen_duplex(place: &Listen, duplex: &Duplex) -> Result<(Waiting, Orders), ControlError> {
    listen(place, &duplex.scenario, Naming { all: Some(BOTH) }, duplex.unlimited())
}

impl Orders {
    /// Becomes readable when an order comes.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.inbox.bell()
    }

    /// The same for somebody who keeps it.
    pub fn shared_bell(&self) -> Arc<OwnedFd> {
        self.inbox.shared_bell()
    }

    /// Does what has come, and tells `noted` of each rate that a link has from now on. `rung` says whether the bell was heard.
    pub fn attend(
        &mut self,
        rung: bool,
        network: &mut Network,
        mut noted: impl FnMut(LinkId, Timestamp, warpline_core::Rate),
    ) {
        let now = network.now();
        for Order { task, claim, reply } in self.inbox.take(rung) {
            // Who asked has been told that it is not done.
            if !claim.take() {
                continue;
            }
            let written = self.written(now);
            let mut failed = None;
            match task {
                Task::Change(changes, links) => {
                    for (link, change) in &links {
                        match network.change(*link, change, &self.streams) {
                            Ok(()) => {
                                if let Some(rate) = change.rate {
                                    noted(*link, now, rate);
                                }
                            }
                            Err(error) => failed = Some(error),
                        }
                    }
                    if failed.is_none() {
                        self.made.extend(changes.into_iter().map(|change| at(change, written)));
                    }
                }
                Task::Typed(host, command) => {
                    self.typed.push(Typed { host, command, at: written, interrupted: None });
                }
                Task::Interrupted(number) => {
                    if let Some(typed) = self.typed.get_mut(number) {
                        typed.interrupted.get_or_insert(written);
                    }
                }
            }
            let done = Done { at: written, typed: self.typed.len() };
            // Who asked may have gone.
            let _ = reply.send(failed.map_or(Ok(done), Err));
        }
    }

    /// The time that is written down for a change: whole milliseconds, which people can read, but not before what was planned and has happened.
    fn written(&self, now: Timestamp) -> Timestamp {
        let millisecond = TimeDelta::from_millis(1).as_nanos();
        let read = Timestamp::from_nanos(now.as_nanos() / millisecond * millisecond);
        let happened = self.planned.iter().copied().filter(|at| *at <= now);
        happened.fold(read, Timestamp::max)
    }

    /// The changes made so far, in order of time.
    pub fn made(&self) -> &[Change] {
        &self.made
    }

    /// Whether anything was changed or typed so far.
    pub(super) fn is_idle(&self) -> bool {
        self.made.is_empty() && self.typed.is_empty()
    }

    /// The scenario of what has happened: `scenario` with these changes among its own, and with what was typed on its hosts.
    pub fn happened(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        typed::add(&self.typed, &mut scenario);
        scenario.change.extend(self.made.iter().cloned());
        scenario.change.sort_by_key(|change| change.at);
        scenario
    }
}

fn at(change: Change, now: Timestamp) -> Change {
    Change { at: Time(now - Timestamp::ZERO), ..change }
}

/// The text of a request's errors.
fn told(errors: &Diagnostics) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in &errors.errors {
        let text = [&[error.message.clone()][..], &error.help].concat().join("; ");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(". ")
}

/// What may stand in place of a word that is not known.
fn allowed(found: &str, known: &[&str]) -> String {
    spelling_help(found, known).join(" ")
}

impl Desk {
    /// The answer to a line.
    fn answer(&mut self, line: &str) -> String {
        self.request(line).unwrap_or_else(|error| json!({ "error": error })).to_string()
    }

    fn request(&mut self, line: &str) -> Result<Value, String> {
        const HOW: &str =
            r#"write {}, {"link": "NAME", "set": {"rate": "5Mbit/s"}} or {"host": "NAME"} in one line"#;
        let request =
            serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}; {HOW}"))?;
        let Value::Object(mut request) = request else {
            return Err(format!("this is no JSON object; {HOW}"));
        };
        if let Some(host) = request.remove("host") {
            return self.host(&host, request);
        }
        if let Some(number) = request.remove("interrupted") {
            return self.interrupted(&number);
        }
        let link = match request.remove("link") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name),
            Some(other) => return Err(format!("`link` must be a string, not {other}")),
        };
        let set = match request.remove("set") {
            None | Some(Value::Null) => None,
            Some(Value::Object(set)) => Some(set),
            Some(other) => return Err(format!("`set` must be an object, not {other}")),
        };
        if let Some(unknown) = request.keys().next() {
            return Err(format!("unknown key `{unknown}`; {}", allowed(unknown, &["link", "set", "host"])));
        }
        let names = self.meant(link.as_deref(), set.is_some())?;
        let (changes, links) = match set {
            Some(set) => self.checked(&names, &set)?,
            None => (Vec::new(), Vec::new()),
        };
        let now = self.order(Task::Change(changes.clone(), links))?.at;
        self.made.extend(changes.into_iter().map(|change| at(change, now)));
        Ok(self.state(&names, now))
    }

    /// Has this done.
    fn order(&self, task: Task) -> Result<Done, String> {
        let (order, awaited) = Order::new(task);
        if !self.post.send(order) {
            return Err(over());
        }
        awaited.within(PATIENCE)
    }

    /// The hosts on which commands can run, with their addresses.
    fn hosts(&self) -> Vec<Value> {
        let plan = AddressPlan::new(&self.scenario, &self.expanded);
        let address = |name: &str| self.expanded.nodes.find(name).map(|node| plan.of(node as usize).0);
        self.entrances.keys().map(|name| json!({ "host": name, "address": address(name) })).collect()
    }

    /// The way into a host, and the words of a command there; or notes that one begins there.
    fn host(&self, host: &Value, mut request: Map<String, Value>) -> Result<Value, String> {
        let Value::String(host) = host else { return Err(format!("`host` must be a string, not {host}")) };
        let words: Vec<String> = match request.remove("command") {
            None => Vec::new(),
            Some(words) => {
                serde_json::from_value(words).map_err(|_| "`command` must be a list of strings")?
            }
        };
        let typed: Option<ProgramCommand> = match request.remove("typed") {
            None => None,
            Some(typed) => {
                serde_json::from_value(typed).map_err(|_| "`typed` must be a line or a list of words")?
            }
        };
        if let Some(unknown) = request.keys().next() {
            return Err(format!(
                "unknown key `{unknown}`; {}",
                allowed(unknown, &["host", "command", "typed"])
            ));
        }
        let Some(entrance) = self.entrances.get(host) else {
            let known: Vec<&str> = self.entrances.keys().map(String::as_str).collect();
            return Err(match known.is_empty() {
                true => "this run has no host on which a command could run".to_owned(),
                false => format!("no command can run on a host `{host}`; {}", allowed(host, &known)),
            });
        };
        if let Some(command) = typed {
            let done = self.order(Task::Typed(host.clone(), command))?;
            return Ok(json!({ "number": done.typed - 1, "at": Time(done.at - Timestamp::ZERO) }));
        }
        let plan = AddressPlan::new(&self.scenario, &self.expanded);
        let words = programs::found(words.iter().map(|word| plan.substitute(word)).collect());
        Ok(json!({ "host": host, "entrance": entrance, "command": words }))
    }

    /// Notes that a command was interrupted.
    fn interrupted(&self, number: &Value) -> Result<Value, String> {
        let unknown = || format!("no command with the number {number} was typed");
        let number = number.as_u64().and_then(|number| usize::try_from(number).ok()).ok_or_else(unknown)?;
        let done = self.order(Task::Interrupted(number))?;
        if number >= done.typed {
            return Err(unknown());
        }
        Ok(json!({ "at": Time(done.at - Timestamp::ZERO) }))
    }

    /// The names of the links that are meant, each of which the scenario knows.
    fn meant(&self, link: Option<&str>, changes: bool) -> Result<Vec<String>, String> {
        let labels = || self.scenario.link.iter().map(|link| link.label()).collect::<Vec<_>>();
        let directions = || {
            let all = self.expanded.links.iter();
            all.map(|link| self.expanded.link_name(&link)).collect::<Vec<_>>()
        };
        match link {
            Some(name) if self.naming.all == Some(name) => Ok(labels()),
            Some(name) if !self.expanded.links_called(&self.scenario, name).is_empty() => {
                Ok(vec![name.to_owned()])
            }
            Some(name) => {
                let known =
                    if self.naming.all.is_some() { labels() } else { [labels(), directions()].concat() };
                let known: Vec<&str> = known.iter().map(String::as_str).chain(self.naming.all).collect();
                Err(format!("there is no link `{name}`; {}", allowed(name, &known)))
            }
            None if self.naming.all.is_some() => Ok(labels()),
            None if changes => {
                let labels = labels();
                let known = if labels.is_empty() { directions() } else { labels };
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Err(format!("say which link; {}", allowed("", &known)))
            }
            None => Ok(directions()),
        }
    }

    /// The changes that are asked for, as a scenario's and as the network's.
    fn checked(&self, names: &[String], set: &Map<String, Value>) -> Result<(Vec<Change>, OnLinks), String> {
        let keys = Change::keys();
        if let Some(unknown) = set.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(format!("a link has no `{unknown}` that can be set; {}", allowed(unknown, &keys)));
        }
        // Read and checked as the scenario's own.
        let mut text = self.scenario.to_json();
        let entry = |name: &String| {
            let mut entry = set.clone();
            entry.insert("at".to_owned(), "0s".into());
            entry.insert("link".to_owned(), name.clone().into());
            Value::Object(entry)
        };
        text["change"] = names.iter().map(entry).collect();
        let read = Scenario::from_json(text, &[], &self.scenario.directory);
        let changes = read.map_err(|errors| told(&errors))?.change;
        if changes.iter().any(Change::has_file) {
            return Err(
                "what goes by a file cannot be set; plan it as a [[change]] of the scenario".to_owned()
            );
        }
        let (mut links, mut files) = (Vec::new(), Files::default());
        for change in &changes {
            let planned = link_change(change, &self.scenario, &mut files).map_err(|fault| fault.message)?;
            let called = self.expanded.links_called(&self.scenario, &change.link);
            links.extend(called.into_iter().map(|link| (link, planned.clone())));
        }
        Ok((changes, links))
    }

    /// What the links of these names are like at `now`.
    fn state(&self, names: &[String], now: Timestamp) -> Value {
        let mut links: Vec<LinkId> =
            names.iter().flat_map(|name| self.expanded.links_called(&self.scenario, name)).collect();
        links.sort_unstable();
        links.dedup();
        let links: Vec<Value> = links.into_iter().map(|link| self.link_state(link, now)).collect();
        json!({
            "run": self.scenario.name,
            "process": std::process::id(),
            "at": Time(now - Timestamp::ZERO),
            "links": links,
            "hosts": self.hosts(),
        })
    }

    fn link_state(&self, link: LinkId, now: Timestamp) -> Value {
        let spec = self.expanded.links.at(link);
        let mut changes: Vec<&Change> =
            spec.changes.iter().map(|&number| &self.scenario.change[number]).collect();
        let of_this =
            |change: &&Change| self.expanded.links_called(&self.scenario, &change.link).contains(&link);
        changes.extend(self.made.iter().filter(of_this));
        changes.retain(|change| Timestamp::ZERO + change.at.0 <= now);
        changes.sort_by_key(|change| change.at);
        let down = changes.iter().rev().find_map(|change| change.down).unwrap_or(false);
        let limited = !self.unlimited.contains(&link) || changes.iter().any(|change| change.rate.is_some());
        let kind = changes.into_iter().fold(spec.kind.clone(), LinkKind::changed);
        let rate = match kind.speed {
            Speed::Constant(rate) if limited => Some(BitRate(rate)),
            _ => None,
        };
        let words = kind.describe(&self.scenario.directory, limited);
        json!({
            "link": self.shown(link),
            "rate": rate,
            "delay": Time(kind.delay),
            "loss": kind.loss,
            "duplicate": kind.duplicate,
            "corrupt": kind.corrupt,
            "jitter": kind.jitter,
            "down": down,
            "words": if down { format!("down; {words}") } else { words },
        })
    }

    /// How a direction is called.
    fn shown(&self, link: LinkId) -> String {
        let name = self.expanded.link_name(&self.expanded.links.at(link));
        if self.naming.all.is_none() {
            return name;
        }
        let own = |label: &String| self.expanded.links_called(&self.scenario, label) == [link];
        self.scenario.link.iter().map(|link| link.label()).find(own).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_order_that_nobody_has_begun_is_withdrawn_and_one_that_is_being_done_is_waited_for() {
        let done = Done { at: Timestamp::ZERO, typed: 7 };
        let (order, awaited) = Order::new(Task::Interrupted(0));
        let told = awaited.within(Duration::ZERO).unwrap_err();
        assert!(told.contains("withdrawn"), "{told}");
        assert!(!order.claim.take(), "the emulator must not do it any more");

        let (order, awaited) = Order::new(Task::Interrupted(0));
        assert!(order.claim.take());
        let waits = thread::spawn(move || awaited.within(Duration::ZERO));
        order.reply.send(Ok(done)).unwrap();
        assert_eq!(waits.join().unwrap().map(|done| done.typed), Ok(7));
    }

    #[test]
    fn orders_that_a_run_has_left_undone_are_told_as_its_end() {
        let (order, awaited) = Order::new(Task::Interrupted(0));
        drop(order);
        assert_eq!(awaited.within(PATIENCE).map(|done| done.typed), Err("the run is over".to_owned()));
    }
}
