//! `warpline study import`: means that another program has measured, for a figure declared in Python.

crate::python::command! {
    /// Take over mean values that another program has measured of the same scenarios
    "import"
    /// PAPER/FIGURE, a CSV file, and options
    #[arg(value_name = "NAME", required = true)]
    words,
    "\
The values count as long as the scenarios of all their seeds are those that are declared.
`warpline study import -- --help` lists the options.

Example:
  warpline study import network-simulation-cradle/fig8 fig8.csv --column stack=stack \\
    --column 'flows in A=flows' --column 'goodput, Mbit/s=goodput' --made-by 'my simulator 1.0'"
}
