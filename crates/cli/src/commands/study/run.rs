//! `warpline study run`: figures that are declared in Python. The package's `warpline.study` does the work.

crate::python::command! {
    /// Run figures that are declared in Python, and judge them
    ///
    /// Runs what is missing on all cores, and compares the results with what the paper says.
    "run"
    /// FILE.py, PAPER/FIGURE or PAPER, and options
    #[arg(value_name = "NAME", required = true)]
    words,
    "\
A declaration names a scenario, its points, the seeds, what is measured, and what a paper
says of it. Results are kept beside it, so that what is there is not run again. The
Python package does the work: `warpline study run -- --help` lists its options.

Examples:
  warpline study run my-study.py
  warpline study run my-study.py --quick
  warpline study run tcp-nice/fig3 --page progress.html
  On a Dask cluster:
    warpline study run my-study.py --dask tcp://scheduler:8786"
}
