//! A figure as pixels, with the same text on every machine.

use std::sync::Arc;

use anyhow::{Context, Result};
use resvg::{tiny_skia, usvg};

/// The only font that is used: the picture must not depend on what is installed.
const FONT: &[u8] = include_bytes!("../../assets/font/DejaVuSansCondensed-subset.ttf");

/// Draws an SVG figure `width` pixels wide, on white.
///
/// # Errors
/// The SVG cannot be read, or so large a picture cannot be had.
pub fn png(svg: &str, width: u32) -> Result<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    let family = fonts.faces().next().map(|face| face.families[0].0.clone());
    fonts.set_sans_serif_family(family.context("the embedded font cannot be read")?);
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).context("the figure is no valid SVG")?;
    let scale = width as f32 / tree.size().width();
    let height = (tree.size().height() * scale).ceil() as u32;
    let mut pixels = tiny_skia::Pixmap::new(width, height)
        .with_context(|| format!("a picture of {width} x {height} pixels is too large"))?;
    let transform = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().context("the PNG cannot be encoded")
}
