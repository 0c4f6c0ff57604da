//! `warpline import`: a scenario of another program's file or command.

crate::python::command! {
    /// Make a scenario of another program's file or command
    ///
    /// Reads the topologies of NetworkX, Shadow and containerlab, commands of mahimahi and tc, and others. Comments say what was assumed, and what was
    /// left out.
    "import" of "warpline.convert"
    /// A file, or the words of a command; and options
    #[arg(value_name = "FILE", required = true)]
    words,
    "\
`warpline import -- --help` lists the formats and the options. The Python package does
the work; it needs what `pip install '.[convert]'` installs.

Examples:
  warpline import Abilene.graphml --out abilene.toml
  warpline import shadow.yaml --out shadow.toml
  warpline import -- mm-delay 20 mm-link up.trace down.trace
  warpline import tc qdisc add dev eth0 root netem delay 20ms 5ms loss 1%"
}
