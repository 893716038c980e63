// Bundles the console into the folder given as the first argument: scripts, styles, the page, and the licences of what is bundled.
//
//   node build.mjs ../src/tidemill/serving/console/assets

import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const target = process.argv[2];
if (!target) throw new Error("name the folder for the bundle: node build.mjs FOLDER");
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });

const result = await build({
  entryPoints: {
    console: "src/main.tsx",
    layout: "src/graph/layout_worker.ts",
  },
  outdir: target,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  chunkNames: "[name]-[hash]",
  metafile: true,
  logLevel: "warning",
});

for (const file of ["index.html", "icon.svg"]) copyFileSync(join("src", file), join(target, file));
writeFileSync(join(target, "LICENSES.txt"), licences(result.metafile));

/** The licence of every package of which something is in the bundle, one after the other. */
function licences(metafile) {
  const packages = new Set();
  for (const output of Object.values(metafile.outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
      const found = input.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
      if (found && bytesInOutput > 0) packages.add(found[1]);
    }
  }
  return [...packages].sort().map(licence).join("\n");
}

function licence(name) {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf-8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? readFileSync(join(folder, file), "utf-8") : `Licence: ${license}\n`;
  return `${"=".repeat(80)}\n${name} ${version} (${license})\n\n${text}`;
}
