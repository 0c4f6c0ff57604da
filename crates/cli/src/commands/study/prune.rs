//! `warpline study prune`: drops results of runs that a figure does not declare any more.

crate::python::command! {
    /// Drop the results of runs that are not declared any more
    "prune"
    /// FILE.py, PAPER/FIGURE or PAPER, and options
    #[arg(value_name = "NAME", required = true)]
    words,
    "\
Nothing is run. Nothing is dropped if no run would be left. `warpline study prune -- --help`
lists the options.

Example:
  warpline study prune tcp-nice/fig3"
}
