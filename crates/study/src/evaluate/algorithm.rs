//! Errors in the name or the parameters of the algorithm that is evaluated. They show no place in a trial, because the user did not write the trial.

use warpline_scenario::{Cc, Diagnostic, Diagnostics, spelling_help};

/// Checks that `cc`, as scenarios write it in short, names an algorithm that models of TCP have.
///
/// # Errors
/// If it does not, with those that there are.
pub(super) fn check(cc: &str) -> Result<(), Diagnostics> {
    let kind = cc.split(':').next().unwrap_or_default().trim();
    if kind == Cc::CUSTOM || Cc::for_tcp().contains(&kind) {
        return Ok(());
    }
    let error = Diagnostic {
        message: format!("there is no congestion control `{kind}` for TCP"),
        path: String::new(),
        location: None,
        help: spelling_help(kind, Cc::for_tcp()),
    };
    Err(Diagnostics { errors: vec![error], omitted: 0 })
}

/// Of the errors of a trial those about the algorithm, each once; or all, if there are none.
pub(super) fn of_algorithm(wrong: Diagnostics) -> Diagnostics {
    let mut own: Vec<Diagnostic> = Vec::new();
    // The path of the key is "flow.0.cc", or goes on below it.
    for error in wrong.errors.iter().filter(|error| error.path.split('.').nth(2) == Some("cc")) {
        let message = error.message.replace(" in `flow.cc`", "");
        let error = Diagnostic { message, path: String::new(), location: None, help: error.help.clone() };
        if !own.contains(&error) {
            own.push(error);
        }
    }
    if own.is_empty() { wrong } else { Diagnostics { errors: own, omitted: 0 } }
}
