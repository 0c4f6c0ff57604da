//! Tools whose commands need modules of the kernel: `tc`, `nft` and `iptables`, and how their modules are called.

/// A tool whose commands need modules.
pub(crate) struct Tool {
    /// Programs whose command lines are looked at, by the words that they contain.
    pub(crate) words: &'static [&'static str],
    /// What precedes a word of a command in the name of its module.
    pub(crate) named: &'static [&'static str],
    /// What the names of modules begin with that are needed in any case.
    pub(crate) all: &'static [&'static str],
}

/// The tool of which a host's key `tc` has commands.
pub(crate) const TC: Tool = Tool { words: &["tc"], named: &["sch_", "cls_", "act_"], all: &[] };

/// The tools whose commands need modules.
pub(crate) const TOOLS: [Tool; 3] = [
    TC,
    Tool { words: &["nft"], named: &[], all: &["nf_tables", "nft_"] },
    // A rule names its match and its target; that of a protocol is in a module for both.
    Tool {
        words: &["iptables", "iptables_legacy", "ip6tables", "ip6tables_legacy"],
        named: &["xt_", "ipt_", "ip6t_"],
        all: &["iptable_", "ip6table_", "xt_tcpudp", "xt_conntrack", "xt_nat"],
    },
];

/// The beginnings of the names of all modules that a command may need.
pub(crate) fn beginnings() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter().flat_map(|tool| tool.named.iter().chain(tool.all)).copied()
}
