//! Derive macros for `warpline_core::parameter`, which explains the traits and exports the macros.
//!
//! The name, type, default, range, unit and meaning of a parameter are written once, at its field:
//!
//! ```ignore
//! /// TCP Nice (Venkataramani, Kokku and Dahlin 2002).
//! #[derive(Clone, Debug, PartialEq, Parameters)]
//! #[component("nice")]
//! pub struct NiceParams {
//!     /// Slow start and byte counting.
//!     #[parameter(flatten)]
//!     pub slow_start: SlowStartParams,
//!     /// Smallest window.
//!     #[parameter(default = 1.0 / 48.0, above = 0.0, unit = "segments", was = "min_window")]
//!     pub floor: f64,
//! }
//! ```
//!
//! | at a field | meaning |
//! |---|---|
//! | `default = VALUE` | its default; without this, the default of its type |
//! | `min`, `above`, `max`, `below = VALUE` | its range; `min` and `max` are in it, `above` and `below` are not |
//! | `not_below`, `not_above = "FIELD"` | another parameter that bounds it |
//! | `unit = "TEXT"` | the unit of a number |
//! | `was = "NAME"` | a former name, which is still read |
//! | `required` | it must be given; the default is only an example |
//! | `share` | a number that may be written as a percentage; from 0 to 1, unless another range is given |
//! | `preset = FUNCTION` | a word that selects the defaults of all parameters; the function returns them |
//! | `skip` | the field is not a parameter |
//! | `flatten` | the parameters of the field's struct are parameters of this component |

mod choice;
mod parameters;
mod words;

use proc_macro::TokenStream;
use syn::{Attribute, DeriveInput, Expr, Lit, Meta};

/// `Parameters` and `Default` for a struct of parameters, and `Component` if it has `#[component("kind")]`.
#[proc_macro_derive(Parameters, attributes(parameter, component))]
pub fn parameters(input: TokenStream) -> TokenStream {
    expand(input, parameters::derive)
}

/// `Words` for an enum without fields: each variant is a word, its name in lower case with dashes unless `#[word("...")]` says another.
#[proc_macro_derive(Words, attributes(word))]
pub fn words(input: TokenStream) -> TokenStream {
    expand(input, words::derive)
}

/// `Choice`, `FromStr` and `Display` for an enum of components with `#[choice("what they are")]`.
#[proc_macro_derive(Choice, attributes(choice))]
pub fn choice(input: TokenStream) -> TokenStream {
    expand(input, choice::derive)
}

fn expand(
    input: TokenStream,
    derive: fn(DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    let derived = syn::parse(input).and_then(derive);
    derived.unwrap_or_else(|error| error.into_compile_error()).into()
}

/// The first paragraph of the doc comments, on one line. Further paragraphs are for programmers only.
fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A name as scenarios write it: `GilbertElliott` is "gilbert-elliott".
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}
