//! The letters of figures: how wide they are, and their outlines. Figures look alike on every machine, whatever fonts it has.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// See `third_party/dejavu`.
const DEJAVU: &[u8] = include_bytes!("../../../../third_party/dejavu/DejaVuSans-Latin.ttf");

/// A part of an outline, in the units of the page, upwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stroke {
    Move(f32, f32),
    Line(f32, f32),
    Curve([f32; 6]),
    Close,
}

/// The font, read.
#[derive(Debug)]
pub(super) struct Font(Face<'static>);

impl Font {
    pub(super) fn new() -> Font {
        // It is a part of the program, and a test reads it.
        Font(Face::parse(DEJAVU, 0).unwrap_or_else(|error| unreachable!("{error}")))
    }

    /// The glyph of a character; that of a missing one, a box, where the font does not have it.
    fn glyph(&self, c: char) -> GlyphId {
        self.0.glyph_index(c).unwrap_or(GlyphId(0))
    }

    fn advance(&self, glyph: GlyphId) -> f32 {
        f32::from(self.0.glyph_hor_advance(glyph).unwrap_or(0)) / f32::from(self.0.units_per_em())
    }

    /// How wide a text of this size is.
    pub(super) fn width(&self, text: &str, size: f32) -> f32 {
        text.chars().map(|c| self.advance(self.glyph(c))).sum::<f32>() * size
    }

    /// The outlines of a text that begins at the origin.
    pub(super) fn outlines(&self, text: &str, size: f32) -> Vec<Stroke> {
        let scale = size / f32::from(self.0.units_per_em());
        let mut pen = Pen { strokes: Vec::new(), x: 0.0, scale, at: (0.0, 0.0) };
        for c in text.chars() {
            let glyph = self.glyph(c);
            if self.0.outline_glyph(glyph, &mut pen).is_none() && !c.is_whitespace() {
                pen.rectangle(
                    self.advance(glyph) * f32::from(self.0.units_per_em()),
                    f32::from(self.0.ascender()),
                );
            }
            pen.x += self.advance(glyph) * size;
        }
        pen.strokes
    }
}

/// Takes outlines down.
struct Pen {
    strokes: Vec<Stroke>,
    x: f32,
    scale: f32,
    at: (f32, f32),
}

impl Pen {
    /// A box of this size in the font's units, in place of a letter that the font does not have.
    fn rectangle(&mut self, width: f32, height: f32) {
        let (left, right, top) = (0.1 * width, 0.9 * width, 0.7 * height);
        self.move_to(left, 0.0);
        for (x, y) in [(right, 0.0), (right, top), (left, top)] {
            self.line_to(x, y);
        }
        self.close();
    }

    fn point(&mut self, x: f32, y: f32) -> (f32, f32) {
        self.at = (x, y);
        self.place(x, y)
    }

    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.strokes.push(Stroke::Move(x, y));
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.strokes.push(Stroke::Line(x, y));
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        // A quadratic curve as a cubic one: its control points lie two thirds of the way to the one that it has.
        let (x0, y0) = self.at;
        let third = |end: f32, control: f32| end + (control - end) * 2.0 / 3.0;
        self.curve_to(third(x0, x1), third(y0, y1), third(x, x1), third(y, y1), x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2)) = (self.place(x1, y1), self.place(x2, y2));
        let (x, y) = self.point(x, y);
        self.strokes.push(Stroke::Curve([x1, y1, x2, y2, x, y]));
    }
    fn close(&mut self) {
        self.strokes.push(Stroke::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_font_is_the_one_that_was_named() {
        let hex: String = Sha256::digest(DEJAVU).iter().map(|b| format!("{b:02x}")).collect();
        assert!(include_str!("../../../../third_party/dejavu/README.md").contains(&hex), "{hex}");
    }

    #[test]
    fn letters_have_widths_and_outlines_also_those_that_are_not_there() {
        let font = Font::new();
        assert!(font.width("MM", 10.0) > font.width("ii", 10.0));
        assert!((font.width("12", 10.0) - 2.0 * font.width("1", 10.0)).abs() < 1e-4);
        for text in ["M", "µ", "±", "é", "Ω", "\u{4e2d}"] {
            let strokes = font.outlines(text, 10.0);
            assert!(matches!(strokes[0], Stroke::Move(..)) && strokes.contains(&Stroke::Close), "{text}");
        }
        assert!(font.outlines(" ", 10.0).is_empty());
    }
}
