//! `warpline study judge`: the results that are kept of figures declared in Python, against what the papers say.

crate::python::command! {
    /// Judge the results that are kept of figures declared in Python
    "judge"
    /// FILE.py, PAPER/FIGURE or PAPER (all papers by default), and options
    #[arg(value_name = "NAME")]
    words,
    "\
Nothing is run. `warpline study judge -- --help` lists the options.

Examples:
  warpline study judge
  warpline study judge tcp-nice/fig3"
}
