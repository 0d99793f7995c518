import sharp from "sharp";

/**
 * sharp, bounded for a process that does one graph at a time: one thread, nothing kept between pictures, and of libvips'
 * decoders only those for formats that LoadImage takes (SVG, PDF and the like read other files).
 */
sharp.cache(false);
sharp.concurrency(1);
sharp.block({ operation: ["VipsForeignLoad"] });
sharp.unblock({
  operation: ["Png", "Jpeg", "Webp", "Nsgif", "Tiff", "Heif"].map((format) => `VipsForeignLoad${format}Buffer`),
});

export { sharp };
