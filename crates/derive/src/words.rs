//! `#[derive(Words)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Variant};

use crate::{docs, kebab};

pub(crate) fn derive(input: DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(name, "Words is for enums only"));
    };
    if let Some(variant) = data.variants.iter().find(|variant| !matches!(variant.fields, Fields::Unit)) {
        return Err(Error::new_spanned(variant, "a variant that is a word has no fields"));
    }
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let (type_name, about) = (name.to_string(), docs(&input.attrs));
    let words = data.variants.iter().map(word).collect::<syn::Result<Vec<_>>>()?;
    let abouts = data.variants.iter().map(|variant| docs(&variant.attrs));
    Ok(quote! {
        impl ::warpline_core::parameter::Words for #name {
            const VOCABULARY: ::warpline_core::parameter::Vocabulary = ::warpline_core::parameter::Vocabulary {
                name: #type_name,
                about: #about,
                words: &[#(::warpline_core::parameter::Word { name: #words, about: #abouts }),*],
            };
            const ALL: &'static [Self] = &[#(Self::#variants),*];
        }
    })
}

/// The word of a variant: what `#[word("...")]` says, or else its name.
fn word(variant: &Variant) -> syn::Result<String> {
    match variant.attrs.iter().find(|attribute| attribute.path().is_ident("word")) {
        Some(attribute) => attribute.parse_args().map(|word: LitStr| word.value()),
        None => Ok(kebab(&variant.ident.to_string())),
    }
}
