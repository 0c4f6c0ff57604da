//! `warpline reproduce`: figures of the papers again. The Python package's `warpline.study` does the work.

crate::python::command! {
    /// Run tables and figures of the papers again, and judge them
    ///
    /// Each has a verdict: it is as in the paper, or differs, and why.
    "reproduce"
    /// PAPER/FIGURE or PAPER, or --all, and options
    #[arg(value_name = "NAME", required = true)]
    words,
    "\
The figures are declared in repro/PAPER/declarations.py of Warpline's source, which is
looked for in this directory and those above. Results that this build has made are not made
again. The Python package does the work: `warpline reproduce -- --help` lists its options.

Examples:
  warpline reproduce --list
  warpline reproduce tcp-nice/fig3 --quick
  warpline reproduce network-simulation-cradle
  warpline reproduce --all --quick"
}
