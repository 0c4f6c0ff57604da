//! Whether a scenario makes sense: what a schema cannot say.
//!
//! Clock, times and links here; topologies in `topology`, flows and TCP options in `semantics_flow`, hosts and programs in `semantics_host`.

use std::collections::BTreeMap;

use warpline_core::LinkId;
use warpline_core::parameter::Choice as _;

use super::checker::Check;
use super::component::{self, Written};
use super::diagnostics::Collector;
use super::document::{Node, Step, entry, key};
use super::expand::Expanded;
use super::files::Files;
use super::link::{DuplexOptions, LinkOptions};
use super::problem::Problem;
use super::topology::{self, Part};
use super::{ClockMode, LARGEST_SEED, Scenario, Tdf, default_sample_interval};
use super::{
    forwarding, semantics_change, semantics_fast_forward, semantics_flow, semantics_host, semantics_program,
};

/// Samples of a flow or a link in a run, at most, where they are more frequent than by default: each is an event of the run, and a row in a file.
const MOST_SAMPLES: u64 = 10_000_000;
/// Bytes that a link may add to every packet, at most.
const MOST_FRAMING: u64 = 10_000;

/// Bytes of a name, at most.
pub(super) const LONGEST_NAME: usize = 100;

/// Checks `scenario`, which was read from `root`. Returns it spelt out, as far as it can be; none if its topology is too large.
pub(crate) fn check(scenario: &Scenario, root: &Node, errors: &mut Collector) -> Option<Expanded> {
    let mut check = Check { scenario, root, errors, files: Files::default() };
    check.times();
    check.names();
    check.network();
    semantics_flow::check(&mut check);
    let mut problems = Vec::new();
    let expanded = scenario.expand_noting(&mut problems);
    if let Some(expanded) = &expanded {
        check.links_once(expanded);
        semantics_host::check(&mut check, expanded);
        forwarding::check(&mut check, expanded);
    }
    semantics_program::check(&mut check);
    semantics_fast_forward::check(&mut check);
    semantics_change::check(&mut check);
    if let Some(expanded) = &expanded
        && check.errors.paths().is_empty()
        && problems.is_empty()
    {
        for (path, message) in crate::plan::faults(scenario, expanded, &mut check.files) {
            check.error(&path, message, "");
        }
    }
    for Problem { path, message, help } in problems {
        check.errors.about(root, &path, message, help);
    }
    expanded
}

impl Check<'_> {
    fn times(&mut self) {
        let scenario = self.scenario;
        match scenario.clock.mode {
            ClockMode::Dilated if scenario.clock.tdf.is_none() => self.error(
                &[key("clock"), key("mode")],
                "the dilated clock needs a factor, `tdf`",
                "for example clock = { mode = \"dilated\", tdf = 10 }; tdf = \"auto\" finds one that this machine can carry",
            ),
            _ => {}
        }
        if let Some(limit) = scenario.clock.max_lag {
            let path = [key("clock"), key("max_lag")];
            if scenario.clock.mode == ClockMode::Virtual {
                self.error(
                    &path,
                    "`max_lag` belongs to mode = \"real\" and mode = \"dilated\"",
                    "leave it out: a virtual clock is never late",
                );
            } else if limit.0.is_zero() {
                self.error(
                    &path,
                    "`max_lag` must be above zero",
                    "for example \"5ms\"; no machine is ever punctual",
                );
            }
        }
        if let Some(Tdf::Factor(factor)) = scenario.clock.tdf
            && warpline_core::Tdf::new(factor).is_none()
        {
            self.error(
                &[key("clock"), key("tdf")],
                format!("`tdf` is out of range: {factor}"),
                format!(
                    "{}; 10 lets the hosts see a machine and a network that are ten times as fast",
                    warpline_core::Tdf::ALLOWED
                ),
            );
        }
        if scenario.clock.tdf.is_some() && scenario.clock.mode != ClockMode::Dilated {
            self.error(
                &[key("clock"), key("tdf")],
                "`tdf` belongs to mode = \"dilated\"",
                "leave it out: the other clocks have no such factor",
            );
        }
        if scenario.duration.0.is_zero() {
            self.error(&[key("duration")], "`duration` must be above zero", "for example \"60s\"");
        } else if scenario.warmup >= scenario.duration {
            self.error(
                &[key("warmup")],
                format!("`warmup` ({}) leaves nothing of the run ({})", scenario.warmup, scenario.duration),
                "it must be shorter than `duration`",
            );
        }
        if scenario.sample_interval.0.is_zero() {
            self.error(
                &[key("sample_interval")],
                "`sample_interval` must be above zero",
                "for example \"100ms\"",
            );
        } else if scenario.sample_interval < default_sample_interval()
            && scenario.duration.0.as_nanos() / scenario.sample_interval.0.as_nanos() > MOST_SAMPLES
        {
            self.error(
                &[key("sample_interval")],
                format!(
                    "`sample_interval` ({}) is for more than {MOST_SAMPLES} samples of each flow and link in {}",
                    scenario.sample_interval, scenario.duration
                ),
                "a longer one, or a shorter `duration`; `record` of flows and links has every event",
            );
        }
        if scenario.framing.0.0 > MOST_FRAMING {
            self.error(&[key("framing")], "`framing` is more than 10kB", "38B is Ethernet's");
        }
        if let Some(plan) = &scenario.replications {
            if plan.runs.is_some() == plan.seeds.is_some() {
                self.error(
                    &[key("replications")],
                    "`[replications]` needs `runs` or `seeds`, one of them",
                    "",
                );
            }
            if let Some(runs) = plan.runs
                && scenario.seed.saturating_add(u64::from(runs).saturating_sub(1)) > LARGEST_SEED
            {
                self.error(
                    &[key("replications"), key("runs")],
                    format!("there are not so many seeds from {} on", scenario.seed),
                    format!("the largest is {LARGEST_SEED}: take a smaller `seed`, or fewer `runs`"),
                );
            }
            let seeds = plan.seeds.as_deref().unwrap_or_default();
            if plan.seeds.is_some() && seeds.is_empty() {
                self.error(&[key("replications"), key("seeds")], "`seeds` is empty", "for example [1, 2, 3]");
            }
            for (i, seed) in seeds.iter().enumerate() {
                if seeds[..i].contains(seed) {
                    let path = [key("replications"), key("seeds"), Step::Index(i)];
                    self.error(
                        &path,
                        format!("the seed {seed} is there twice"),
                        "two runs would be the same",
                    );
                }
            }
        }
    }

    /// Names become parts of file names and paths.
    pub(super) fn name(&mut self, path: &[Step], name: &str) {
        self.length(path, name);
        let plain = !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if !plain {
            self.error(
                path,
                format!("{name:?} cannot be a name"),
                "names have letters, digits, `-`, `_` and `.`, and do not begin with a dot",
            );
        }
    }

    /// Names cannot be of any length.
    pub(super) fn length(&mut self, path: &[Step], name: &str) {
        if name.len() > LONGEST_NAME {
            let message = format!("the name is too long: it has {} bytes", name.len());
            self.error(path, message, format!("allowed: at most {LONGEST_NAME}"));
        }
    }

    fn unique(&mut self, list: &str, names: &[String]) {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if let Some(before) = first.get(name.as_str()) {
                let message = format!("`{list}.{before}` is already called `{name}`");
                self.error(&entry(list, i, &["name"]), message, "give one of them another `name`");
            } else {
                first.insert(name, i);
            }
        }
    }

    fn names(&mut self) {
        let scenario = self.scenario;
        self.name(&[key("name")], &scenario.name);
        for (i, flow) in scenario.flow.iter().enumerate() {
            if let Some(name) = &flow.name {
                self.name(&entry("flow", i, &["name"]), name);
            }
        }
        for (i, link) in scenario.link.iter().enumerate() {
            if let Some(name) = &link.name {
                self.name(&entry("link", i, &["name"]), name);
            }
        }
        self.unique("flow", &scenario.group_names());
        self.unique("host", &scenario.host.iter().map(|h| h.name.clone()).collect::<Vec<_>>());
        // Two links between the same nodes are told of by `links_once`.
        let links: Vec<String> = scenario.link.iter().map(|l| l.name.clone().unwrap_or_default()).collect();
        self.unique("link", &links);
    }

    fn network(&mut self) {
        let scenario = self.scenario;
        if scenario.link.is_empty() && scenario.topology.is_none() {
            let help = "add a [topology], for example kind = \"dumbbell\", or [[link]]s";
            self.error(&[key("topology")], "the scenario has no network", help);
        }
        for (i, link) in scenario.link.iter().enumerate() {
            match (&link.between, &link.from, &link.to) {
                (Some(_), None, None) => {}
                (None, Some(_), Some(_)) => {
                    if link.reverse.is_some() {
                        self.error(
                            &entry("link", i, &["reverse"]),
                            "a one-way link has no reverse direction",
                            "use `between` in place of `from` and `to`",
                        );
                    }
                }
                _ => self.error(
                    &entry("link", i, &[]),
                    "a link needs `between`, or `from` and `to`",
                    "between = [\"a\", \"b\"] for both directions; from = \"a\", to = \"b\" for one",
                ),
            }
            if let Some((a, b)) = link.ends() {
                let keys: [&str; 2] =
                    if link.between.is_some() { ["between", "between"] } else { ["from", "to"] };
                self.name(&entry("link", i, &[keys[0]]), a);
                if a == b {
                    let message = format!("the link goes from `{a}` to itself");
                    self.error(&entry("link", i, &[keys[1]]), message, "");
                } else {
                    self.name(&entry("link", i, &[keys[1]]), b);
                }
            }
            self.link_options(&entry("link", i, &[]), &link.options, link.reverse.as_ref(), true);
        }
        if let Some(mut topology) = scenario.topology.clone() {
            for Part { key, options, rate_needed } in topology.layout_mut().parts() {
                let DuplexOptions { options, reverse } = options;
                self.link_options(&topology::at(key), options, reverse.as_ref(), rate_needed);
            }
            topology.layout().check(self);
        }
    }

    /// Two links from the same node to the same node have the same name in every table.
    fn links_once(&mut self, expanded: &Expanded) {
        let ends = |&link: &LinkId| {
            let link = expanded.links.at(link);
            (link.from, link.to)
        };
        let mut links: Vec<LinkId> = (0..expanded.links.len() as u32).map(LinkId).collect();
        links.sort_by_key(ends);
        let mut again: Vec<LinkId> =
            links.windows(2).filter(|pair| ends(&pair[0]) == ends(&pair[1])).map(|pair| pair[1]).collect();
        again.sort_unstable();
        let mut told: Vec<&[Step]> = Vec::new();
        for link in again.into_iter().map(|link| expanded.links.at(link)) {
            let origin = &link.kind.origin;
            if link.from != link.to && !told.contains(&origin.as_slice()) {
                told.push(origin);
                let mut path = origin.clone();
                // At its ends: a mistake in another key of the link does not hide it.
                if let [Step::Key(list), Step::Index(number)] = origin.as_slice()
                    && list == "link"
                {
                    let between = self.scenario.link[*number].between.is_some();
                    path.push(key(if between { "between" } else { "to" }));
                }
                let message = format!("there is already a link `{}`", expanded.link_name(&link));
                self.error(&path, message, "two nodes have at most one link in each direction");
            }
        }
    }

    fn link_options(
        &mut self,
        at: &[Step],
        options: &LinkOptions,
        reverse: Option<&LinkOptions>,
        rate_needed: bool,
    ) {
        self.one_direction(at, options);
        if rate_needed && !options.has_rate() {
            self.error(
                at,
                "the link has no `rate`",
                "give `rate`, `schedule`, `trace` or `radio`; for example rate = \"10Mbit/s\"",
            );
        }
        if let Some(reverse) = reverse {
            let mut path = at.to_vec();
            path.push(key("reverse"));
            self.one_direction(&path, reverse);
            let excludes = |options: &LinkOptions| options.radio.is_some() && options.delays.is_some();
            if excludes(&options.back(Some(reverse))) && ![options, reverse].into_iter().any(excludes) {
                let help = "the reverse direction has the `radio` or the `delays` of the forward one; a radio says how its delay changes";
                self.error(&path, "`radio` excludes `delays` in the reverse direction", help);
            }
        }
    }

    fn one_direction(&mut self, at: &[Step], options: &LinkOptions) {
        let below = |names: &[&str]| {
            let mut path = at.to_vec();
            path.extend(names.iter().map(|name| key(name)));
            path
        };
        if options.trace.is_some() && (options.rate.is_some() || options.schedule.is_some()) {
            let help = "a trace says when packets may be sent; leave out `rate` and `schedule`, or `trace`";
            self.error(&below(&["trace"]), "`trace` excludes `rate` and `schedule`", help);
        }
        if let Some(Written(radio)) = &options.radio {
            component::check(self, &below(&["radio"]), radio.faults());
            let others = [
                ("rate", options.rate.is_some()),
                ("schedule", options.schedule.is_some()),
                ("trace", options.trace.is_some()),
                ("delays", options.delays.is_some()),
            ];
            if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
                let help = format!(
                    "a radio says how fast the link sends and how its delay changes; leave out `{other}`, or `radio`"
                );
                self.error(&below(&["radio"]), format!("`radio` excludes `{other}`"), help);
            }
        }
        if let Some(trace) = &options.trace {
            self.file(&below(&["trace"]), trace, "mahimahi trace", Files::trace);
        }
        if options.schedule.is_none() && options.rate.is_some_and(|r| r.0.as_bps() == 0) {
            let help = "for a link that is down for a time, use `down`; for one that stops, a `schedule`";
            self.error(&below(&["rate"]), "a link with rate 0 never sends anything", help);
        }
        if let Some(steps) = &options.schedule
            && options.trace.is_none()
            && !steps.is_empty()
            && steps.iter().all(|step| step.rate.0.as_bps() == 0)
            && (steps[0].at.0.is_zero() || options.rate.is_none_or(|rate| rate.0.as_bps() == 0))
        {
            let help = "give a step above zero; for a link that is down for a time, use `down`";
            self.error(&below(&["schedule"]), "a link that always has rate 0 never sends anything", help);
        }
        if options.framing.is_some_and(|framing| framing.0.0 > MOST_FRAMING) {
            self.error(&below(&["framing"]), "`framing` is more than 10kB", "38B is Ethernet's");
        }
        if options.mtu.is_some_and(|mtu| !(68..=65_535).contains(&mtu.0.0)) {
            let help = "IPv4 needs 68B, IPv6 1280B; 1500B is Ethernet's, 65535B the largest there is";
            self.error(&below(&["mtu"]), "`mtu` is out of range", help);
        }
        let steps = options.schedule.as_deref().unwrap_or_default();
        if options.schedule.is_some() && steps.is_empty() {
            self.error(
                &below(&["schedule"]),
                "`schedule` is empty",
                "leave it out, or give steps { at, rate }",
            );
        }
        let of_entry = |list: &str, number: usize, name: &str| {
            let mut path = below(&[list]);
            path.extend([Step::Index(number), key(name)]);
            path
        };
        if let Some(i) = (1..steps.len()).find(|&i| steps[i].at <= steps[i - 1].at) {
            self.error(
                &of_entry("schedule", i, "at"),
                "the steps of `schedule` are not in order of time",
                "each must be later than the one before",
            );
        }
        let delays = options.delays.as_deref().unwrap_or_default();
        if let Some(i) = (1..delays.len()).find(|&i| delays[i].at <= delays[i - 1].at) {
            let help = "each must be later than the one before";
            self.error(&of_entry("delays", i, "at"), "the steps of `delays` are not in order of time", help);
        }
        let down = options.down.as_deref().unwrap_or_default();
        if let Some(repeat) = options.repeat {
            match steps.last() {
                None => self.error(
                    &below(&["repeat"]),
                    "`repeat` without `schedule`",
                    "a trace repeats by itself",
                ),
                Some(last) if last.at >= repeat => self.error(
                    &below(&["repeat"]),
                    format!("`repeat` ({repeat}) is not after the last step ({})", last.at),
                    "",
                ),
                Some(_) => {}
            }
        }
        if let Some(i) = down.iter().position(|down| down.duration.0.is_zero()) {
            self.error(&of_entry("down", i, "for"), "`for` must be above zero", "for example \"2s\"");
        }
        if let Some(i) = (1..down.len()).find(|&i| down[i].at.0 < down[i - 1].at.0 + down[i - 1].duration.0) {
            let mut path = below(&["down"]);
            path.push(Step::Index(i));
            self.error(&path, "the times in `down` overlap or are out of order", "");
        }
        if let Some(pfc) = options.pfc {
            if pfc.xoff.0.0 == 0 {
                self.error(&below(&["pfc", "xoff"]), "`xoff` is out of range: 0 B", "allowed: above 0 B");
            }
            if let Some(xon) = pfc.xon.filter(|xon| *xon >= pfc.xoff) {
                let message = format!("`xon` ({xon}) is not below `xoff` ({})", pfc.xoff);
                self.error(&below(&["pfc", "xon"]), message, "");
            }
        }
        if let Some(Written(queue)) = &options.queue {
            component::check(self, &below(&["queue"]), queue.faults());
        }
        for (name, chosen) in
            [("loss", &options.loss), ("duplicate", &options.duplicate), ("corrupt", &options.corrupt)]
        {
            if let Some(Written(chosen)) = chosen {
                component::check(self, &below(&[name]), chosen.faults());
                self.component_files(&below(&[name]), chosen);
            }
        }
        if let Some(Written(jitter)) = &options.jitter {
            component::check(self, &below(&["jitter"]), jitter.faults());
            self.component_files(&below(&["jitter"]), jitter);
        }
    }
}
