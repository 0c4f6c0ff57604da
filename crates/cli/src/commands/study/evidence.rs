//! `warpline study evidence`: the page of the book with each figure of the papers, and the verdicts.

crate::python::command! {
    /// Write the page of the book that holds each figure of the papers against ours
    "evidence"
    /// Options
    #[arg(value_name = "OPTION")]
    words,
    "\
Nothing is run. `warpline study evidence -- --help` lists the options.

Examples:
  warpline study evidence
  warpline study evidence --check"
}
