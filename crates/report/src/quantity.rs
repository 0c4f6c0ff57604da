//! What can be drawn over time.

use std::borrow::Cow;

use warpline_results::{ColumnInfo, FlowSample, LinkSample, Row};

use super::heads::axis_kind;

/// What can be drawn over time: a column of a series that is declared so (`drawn`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    word: &'static str,
    pub(crate) column: &'static ColumnInfo,
    /// Whether it is that of a link; else of flows.
    pub(crate) link: bool,
}

/// The quantities of a table.
fn quantities<R: Row>(link: bool) -> impl Iterator<Item = Quantity> {
    let info = R::COLUMNS.iter().map(|column| &column.info);
    info.filter_map(move |column| Some(Quantity { word: column.quantity?, column, link }))
}

impl Quantity {
    /// All of them, those of flows first.
    pub fn all() -> Vec<Quantity> {
        quantities::<FlowSample>(false).chain(quantities::<LinkSample>(true)).collect()
    }

    /// The quantity of this word.
    pub fn named(word: &str) -> Option<Quantity> {
        Self::all().into_iter().find(|quantity| quantity.word == word)
    }

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        self.word
    }
    /// What an axis is called.
    pub fn label(self) -> Cow<'static, str> {
        self.column.heading()
    }
    /// What it is, in a sentence.
    pub(crate) fn about(self) -> &'static str {
        self.column.about()
    }
    /// The kind of number, as the page and figures scale it.
    pub(crate) fn kind(self) -> &'static str {
        axis_kind(self.column.unit)
    }
    /// Whether it is that of a link, not of flows.
    pub fn of_link(self) -> bool {
        self.link
    }
}
