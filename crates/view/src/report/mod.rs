//! One self-contained HTML page, and pictures for papers.
