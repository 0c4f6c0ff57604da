//! What a scenario expects of its results: conditions on measures. Which measures there are, the results know, and which flows and links, the scenario
//! spelt out.

use std::path::Path;

use serde_json::Value;
use warpline_results::{About, Condition, NamedMeasure, NoMeasure, Summary};
use warpline_scenario::{Diagnostics, Expanded, FlowSpec, Misfit, Scenario, Source};

use super::RunError;

/// So many names of links are tried for the one that was meant.
const TRIED: usize = 1000;
/// The name in the results of what programs send each other beyond what is counted one by one.
const OTHERS: &str = "others";

/// Reads a scenario with `sets` applied, each "path=value" as of `--set`. What it expects of its results is read, too, which
/// [`Source::load`] cannot do: which measures there are, the results know.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub fn load(source: &Source, sets: &[String]) -> Result<Scenario, Diagnostics> {
    source.load_judged(sets, misfits)
}

/// Reads a scenario from a JSON value, as [`Scenario::from_json`] does, and what it expects of its results, too.
///
/// # Errors
/// Everything that is wrong with it, at once, by key path.
pub fn from_json(value: Value, sets: &[String], directory: &Path) -> Result<Scenario, Diagnostics> {
    Scenario::from_json_judged(value, sets, directory, misfits)
}

/// What is wrong with the texts of `expect`. Without the scenario spelt out, names of flows and links are passed over.
fn misfits(scenario: &Scenario, expanded: Option<&Expanded>) -> Vec<Misfit> {
    let wrong = |(index, text): (usize, &String)| {
        let NoMeasure { message, help } = match Condition::parse(text) {
            Ok(condition) => missing(scenario, expanded?, &condition.measure)?,
            Err(wrong) => wrong,
        };
        Some(Misfit { index, message, help })
    };
    scenario.expect.iter().enumerate().filter_map(wrong).collect()
}

/// Why a run of the scenario cannot have a measure; none if it can.
fn missing(scenario: &Scenario, expanded: &Expanded, measure: &NamedMeasure) -> Option<NoMeasure> {
    match measure.about {
        About::Total => None,
        About::Link => no_link(scenario, expanded, measure),
        About::Flow => no_flow(scenario, expanded, measure),
    }
}

fn no_link(scenario: &Scenario, expanded: &Expanded, measure: &NamedMeasure) -> Option<NoMeasure> {
    let name = &measure.name;
    let found = expanded.links_called(scenario, name);
    if found.is_empty() {
        let all: Vec<String> =
            expanded.links.iter().take(TRIED).map(|link| expanded.link_name(&link)).collect();
        let known: Vec<&str> = all.iter().map(String::as_str).collect();
        return Some(measure.absent(&known));
    }
    if name.contains('>') {
        return None;
    }
    let directions =
        found.iter().map(|&link| format!("link[{}]", expanded.link_name(&expanded.links.at(link))));
    let directions: Vec<String> = directions.collect();
    Some(NoMeasure {
        message: format!("`{name}` is no direction of a link, and each has results of its own"),
        help: vec![format!("write {}", directions.join(" or "))],
    })
}

fn no_flow(scenario: &Scenario, expanded: &Expanded, measure: &NamedMeasure) -> Option<NoMeasure> {
    let name = measure.name.as_str();
    let members = |group: &str| -> Vec<&FlowSpec> {
        expanded.flows.iter().filter(|flow| &*flow.group == group).collect()
    };
    if let Some(flow) = expanded.flows.iter().find(|flow| flow.name == name) {
        // A flow that is alone in its group has the group's measures. Subflows of a connection are one flow there.
        let first = |flow: &&&FlowSpec| flow.subflow.is_none_or(|own| own.number == 0);
        let alone = members(&flow.group).iter().filter(first).count() == 1;
        return (!alone && !measure.is_of_a_flow()).then(|| {
            let column = measure.column.name;
            NoMeasure {
                message: format!("`{name}` is one flow of several, which has no `{column}` of its own"),
                help: vec![format!("name them all: flow[{}].{column}", flow.group)],
            }
        });
    }
    let groups = scenario.group_names();
    if groups.iter().any(|group| group == name) {
        return match members(name).as_slice() {
            [one, _, ..] if !measure.is_of_a_group() => Some(measure.of_several(&one.name)),
            _ => None,
        };
    }
    // Flows that cannot be spelt out have an error of their own.
    let of_group =
        |group: &&String| name.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('.'));
    let is_untold = groups.iter().filter(of_group).any(|group| members(group).is_empty());
    if is_untold || may_be_of_programs(scenario, name) {
        return None;
    }
    let known: Vec<&str> = groups.iter().map(String::as_str).collect();
    Some(measure.absent(&known))
}

/// Whether what real programs send each other may have this name in the results. It is called by its sockets there, and its group is "(programs)".
fn may_be_of_programs(scenario: &Scenario, name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    !scenario.is_simulated() && (!is_plain || name == OTHERS)
}

/// Refuses what [`load`] refuses of `expect`, since a scenario can also be read in another way, or be made in code.
///
/// # Errors
/// If a text is no condition on something that the run has.
pub(super) fn check(scenario: &Scenario, expanded: &Expanded) -> Result<(), RunError> {
    let wrong = misfits(scenario, Some(expanded));
    if wrong.is_empty() {
        return Ok(());
    }
    let told = wrong.into_iter().map(|Misfit { index, message, help }| {
        [vec![format!("expect.{index}: {message}")], help].concat().join("; ")
    });
    Err(RunError::Build(told.collect::<Vec<_>>().join("\n")))
}

/// The conditions that the scenario lists. What is none, [`check`] has refused.
pub(super) fn conditions(scenario: &Scenario) -> Vec<Condition> {
    scenario.expect.iter().filter_map(|text| Condition::parse(text).ok()).collect()
}

/// A message about each condition that the results do not meet.
pub(super) fn unmet(conditions: &[Condition], summary: &Summary) -> Vec<String> {
    conditions.iter().filter_map(|condition| condition.judge(summary).err()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{CustomCc, check as check_run};
    use super::*;

    const TEXT: &str = r#"
duration = "1s"
topology = { kind = "dumbbell", pairs = 2, bottleneck = { rate = "10Mbit/s", delay = "5ms" } }
[[flow]]
name = "up"
from = "left"
to = "right"
count = 2
[[flow]]
name = "one"
from = "left"
to = "right"
"#;

    fn told(expect: &[&str], sets: &[&str]) -> String {
        let mut all: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        all.push(format!("expect={}", Value::from(expect.to_vec())));
        let source = Source::from_text("test.toml", TEXT, Path::new(""));
        load(&source, &all).map_or_else(|errors| errors.to_string(), |_| String::new())
    }

    #[test]
    fn conditions_on_what_the_run_has_are_fine() {
        let fine = [
            "flow.up.goodput > 1Mbit/s",
            "flow[up.1].rtt_max < 1s",
            "flow.up.ce_marks < 5",
            // Of a flow that is alone in its group, and of the group.
            "flow[one.0].goodput_mean > 1Mbit/s",
            "flow.one.rtt_max < 1s",
            "link[r1>r2].drops < 5",
            "link[left.0>r1].drops <= 0",
            "total.jain > 0.5",
        ];
        assert_eq!(told(&fine, &[]), "");
    }

    #[test]
    fn all_mistakes_are_told_at_their_places_before_the_run() {
        let wrong = told(
            &[
                "flow[upp].goodput_bps > 1Mbit/s",
                "link[r2-r1].drops > 1",
                "flow.up.goodputt > 1Mbit/s",
                "flow.up.goodput > 1",
                "flow.up.rtt_max < 1s",
                "flow[up.0].goodput_mean > 1Mbit/s",
                "link[r1>r3].drops < 1",
                "flow.up.goodput",
            ],
            &["warmup=9s"],
        );
        for part in [
            "error: the run has no flow `upp`\n --> --set:1:9\n",
            "help: did you mean `up`?\n",
            "help: its flows: up, one\n",
            "error: `r2-r1` is no direction of a link",
            "help: write link[r1>r2] or link[r2>r1]\n",
            "error: a flow has no column `goodputt`\n",
            "help: did you mean `goodput`?\n",
            "error: `flow.up.goodput > 1`: `1` has no unit",
            "error: `up` is several flows, which have no `rtt_max_ms` together\n",
            "help: name one of them, for example flow[up.0].rtt_max_ms\n",
            "error: `up.0` is one flow of several, which has no `goodput_mean_bps` of its own\n",
            "help: name them all: flow[up].goodput_mean_bps\n",
            "error: the run has no link `r1>r3`\n",
            "error: `flow.up.goodput` compares nothing\n",
            "= key: expect.7\n",
            "error: `warmup` (9s) leaves nothing of the run (1s)\n",
            "9 errors",
        ] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
    }

    #[test]
    fn names_that_depend_on_another_mistake_are_passed_over() {
        // The flows that are not there have an error of their own.
        let unknown = told(&["flow[up.7].goodput > 1Mbit/s", "flow.up.rtt_max < 1s"], &["flow.0.to=rihgt"]);
        assert!(unknown.contains("there is no node") && unknown.ends_with('\n'), "{unknown}");
        assert_eq!(unknown.matches("error: ").count(), 1, "{unknown}");
        let misspelt = told(&["link[r1>r9].drops < 1", "link[r1>r9].dropps < 1"], &["topology.kind=dumbell"]);
        assert_eq!(misspelt.matches("error: ").count(), 2, "{misspelt}");
        assert!(misspelt.contains("a link has no column `dropps`"), "{misspelt}");
    }

    #[test]
    fn what_programs_send_each_other_has_names_that_are_not_known_before() {
        let text = "duration = \"1s\"\nclock = { mode = \"real\" }\n\
            link = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\n[[host]]\nname = \"a\"\nendpoint = \"live\"\n";
        let live = |name: &str| {
            let set = format!("expect=[\"flow[{name}].goodput > 1bit/s\"]");
            let source = Source::from_text("test.toml", text, Path::new(""));
            load(&source, &[set]).map_or_else(|errors| errors.to_string(), |_| String::new())
        };
        for name in ["(programs)", "tcp 10.0.0.1:5201>10.0.0.2:40000", "others"] {
            assert_eq!(live(name), "", "{name}");
        }
        assert!(live("bulk").contains("the run has no flow `bulk`"));
        assert!(told(&["flow.others.goodput > 1bit/s"], &[]).contains("no flow `others`"));
    }

    #[test]
    fn a_scenario_that_was_read_without_the_conditions_is_checked_before_it_runs() {
        let sets = ["expect=[\"flow.upp.goodput > 1bit/s\", \"total.jane > 0.5\"]".to_owned()];
        let scenario = Scenario::from_toml("test.toml", TEXT, &sets).unwrap();
        let told = check_run(&scenario, &CustomCc::default()).unwrap_err().to_string();
        for part in
            ["expect.0: the run has no flow `upp`", "expect.1: a total has no column `jane`; did you mean"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
