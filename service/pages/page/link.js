// The page's state in its address: behind the #, which no server sees, packed.

/** A state as text for an address. */
export async function packed(state) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(state)));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state in a text; nothing where it holds none. The point or bracket after a link in a message is no part of it. */
export async function unpacked(text) {
  try {
    const bytes = Uint8Array.from(atob(text.replace(/(%20|[^\w-])+$/, "").replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
  } catch {
    return undefined;
  }
}

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}
