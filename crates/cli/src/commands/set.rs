//! `warpline set`: changes a link of a shell or a run in progress.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use warpline_scenario::Change;

use super::control_args::{ControlArgs, accepted};
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
A shell's directions are called up and down; without a name both are meant. The links
of a run have the names that its scenario gives them: r1-r2, or 'r1>r2' (in quotes, because
of the shell) for one direction.
A packet in transmission finishes at the rate it began with, and none overtakes another
because the delay became shorter. The values are those of a [[link]] in a scenario.

Examples:
  In one terminal a shell, in another one a change of its link, both ways:
    warpline shell --rate 20mbit --delay 20ms --control
    warpline set rate=5mbit loss=2%
  Down only; and what the link is like now:
    warpline set down delay=80ms
    warpline set
  A link of a run, which goes down for a second:
    warpline run live.toml --control
    warpline set r1-r2 down=true; sleep 1; warpline set r1-r2 down=false
  One direction of it:
    warpline set 'r1>r2' delay=80ms
  For programs:
    warpline set --json r1-r2 rate=5mbit | jq .links[].rate

Exit code: 2 if the run refuses the change, 1 if none answers.";

/// The end of the help text.
fn examples() -> String {
    format!("Keys: {}.\n\n{EXAMPLES}", Change::keys().join(", "))
}

/// Change a link of a shell or a run in progress
///
/// Changes take effect at once, and the run keeps them with their times. Prints what the link is like now. Without a change it
/// lists the links.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(), override_usage = "warpline set [OPTIONS] [LINK] [KEY=VALUE]...")]
pub(crate) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
    /// The link's name, and what to change of it
    #[arg(value_name = "LINK KEY=VALUE")]
    words: Vec<String>,
}

/// The request that the words of the command line mean.
fn request(words: &[String]) -> Result<Value, Failure> {
    let mut request = Map::new();
    let mut rest = words;
    if let [link, others @ ..] = words
        && !link.contains('=')
    {
        request.insert("link".to_owned(), link.clone().into());
        rest = others;
    }
    let mut set = Map::new();
    for word in rest {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!(
                "{word:?} is no KEY=VALUE; name one link, and then for example rate=5mbit"
            )));
        };
        let value = match value {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => text.into(),
        };
        if set.insert(key.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("{key} is set twice")));
        }
    }
    if !set.is_empty() {
        request.insert("set".to_owned(), Value::Object(set));
    }
    Ok(Value::Object(request))
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let request = request(&args.words)?;
    let read = args.control.ask(&request)?;
    if let (Some(error), true) = (read["error"].as_str(), args.json) {
        output::print(&format!("{}\n", json!({ "error": error })))?;
    }
    let read = accepted(read)?;
    output::print(&if args.json { format!("{read}\n") } else { table(&read) })?;
    Ok(Code::Success)
}

/// What the links are like, a line for each.
fn table(answer: &Value) -> String {
    let links: Vec<(&str, &str)> = answer["links"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|link| (link["link"].as_str().unwrap_or_default(), link["words"].as_str().unwrap_or_default()))
        .collect();
    let width = links.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, words) in links {
        let _ = writeln!(text, "{name:width$}  {words}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        request(&words).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn words_are_a_request() {
        assert_eq!(read(&[]).unwrap(), json!({}));
        assert_eq!(read(&["r1>r2"]).unwrap(), json!({ "link": "r1>r2" }));
        let both = read(&["loss=every,n=3", "down=false"]).unwrap();
        assert_eq!(both, json!({ "set": { "loss": "every,n=3", "down": false } }));
        assert_eq!(read(&["up", "rate=5mbit"]).unwrap(), json!({ "link": "up", "set": { "rate": "5mbit" } }));
        assert!(read(&["up", "down"]).unwrap_err().contains("is no KEY=VALUE"));
        assert!(read(&["up", "rate=1mbit", "rate=2mbit"]).unwrap_err().contains("twice"));
    }
}
