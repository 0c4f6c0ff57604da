//! What a scenario expects of its results.
//!
//! To a scenario these are texts. Which measures there are, and in which units, the results know, and no crate below `lab` sees both. So whoever reads
//! a scenario to run it hands in what judges these texts. Their mistakes come with all others then, each at its place.

use super::Scenario;
use super::diagnostics::{Collector, makes_network};
use super::document::{Node, Step, key};
use super::expand::Expanded;

/// A mistake in a text of `expect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The number of the text in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub message: String,
    /// What there is, and what to write.
    pub help: Vec<String>,
}

/// Finds what is wrong with the texts that a scenario has in `expect`. It also gets the scenario spelt out, with all flows and links; or none where
/// another mistake makes it uncertain what they are called.
pub type Judge = fn(&Scenario, Option<&Expanded>) -> Vec<Misfit>;

/// Notes what `judge` finds. `wrong` are the key paths of what could not be read of the document.
pub(crate) fn check(
    judge: Judge,
    scenario: &Scenario,
    expanded: Option<&Expanded>,
    root: &Node,
    wrong: &[Vec<Step>],
    errors: &mut Collector,
) {
    if scenario.expect.is_empty() {
        return;
    }
    let is_certain = scenario.link.iter().all(|link| link.ends().is_some())
        && !wrong.iter().any(|path| makes_network(path) || names_flows(path))
        && !errors.paths().iter().any(|path| path.first() == Some(&key("topology")));
    for Misfit { index, message, help } in judge(scenario, expanded.filter(|_| is_certain)) {
        errors.about(root, &[key("expect"), Step::Index(index)], message, help);
    }
}

/// Whether it depends on the key at `path` what flows are called, and how many there are.
fn names_flows(path: &[Step]) -> bool {
    match path {
        [Step::Key(key)] | [Step::Key(key), Step::Index(_)] => key == "flow",
        [Step::Key(list), Step::Index(_), Step::Key(key), ..] => {
            let names = ["name", "app", "from", "to", "pattern", "count", "multipath"];
            list == "flow" && names.contains(&key.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Diagnostics, Source};
    use super::*;
    use std::path::Path;

    /// Every text is wrong; whether the names were known is in the message.
    fn wrong(scenario: &Scenario, expanded: Option<&Expanded>) -> Vec<Misfit> {
        let known = if expanded.is_some() { "known" } else { "uncertain" };
        let misfit = |(index, text): (usize, &String)| Misfit {
            index,
            message: format!("{text}, {known}"),
            help: vec!["another".to_owned()],
        };
        scenario.expect.iter().enumerate().map(misfit).collect()
    }

    const TEXT: &str = "duration = \"1s\"\n\
        expect = [\"one\",\n \"two\"]\n\
        link = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\n\
        flow = [{ from = \"a\", to = \"b\" }]\n";

    fn errors(sets: &[&str]) -> Diagnostics {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Source::from_text("test.toml", TEXT, Path::new("")).load_judged(&sets, wrong).unwrap_err()
    }

    #[test]
    fn what_the_judge_finds_has_its_place_among_the_other_errors() {
        let found = errors(&["warmup=9s"]).to_string();
        for part in [
            "error: one, known\n --> test.toml:2:11\n",
            "error: two, known\n --> test.toml:3:2\n",
            "  = key: expect.1\n  = help: another\n",
            "error: `warmup` (9s) leaves nothing of the run",
            "3 errors",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        let set = errors(&["expect=[\"three\"]"]).to_string();
        assert!(set.contains("error: three, known\n --> --set:1:9\n"), "{set}");
        // Without a judge they are texts.
        assert!(Source::from_text("test.toml", TEXT, Path::new("")).load(&[]).is_ok());
    }

    #[test]
    fn names_are_uncertain_where_another_mistake_is_about_them() {
        for (set, known) in [
            ("warmup=9s", true),
            ("link.0.jitter=uniform,max=-1ms", true),
            ("flow.0.start=never", true),
            ("flow.0.name=7", false),
            ("flow.0.count=0", false),
            ("link.0.between=[\"a\"]", false),
            ("topology.kind=ring", false),
        ] {
            let found = errors(&[set]).to_string();
            assert_eq!(found.contains("one, known"), known, "{set}: {found}");
            assert_eq!(found.contains("one, uncertain"), !known, "{set}: {found}");
        }
    }
}
