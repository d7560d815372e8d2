"""The style sheet of every HTML page that a command writes; light and dark, without a script."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee6;--card:#fff;--page:#f4f6f9;--hue:#0b7285}
@media (prefers-color-scheme:dark){:root{--ink:#e8ecf2;--soft:#9aa6b6;--line:#2d3644;--card:#171d26;--page:#0f141b;
--hue:#3bc9db}}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:980px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:28px;margin:0 0 4px}h1,.soft{overflow-wrap:anywhere}h2{font-size:19px;margin:0 0 12px}
.soft{color:var(--soft)}section{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:20px 24px;margin-top:20px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14.5px}th,td{padding:6px 10px;text-align:left;
border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
td:first-child{max-width:22em}
td:last-child{min-width:7em}th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%;background:#fff;border-radius:6px}
.figures{display:flex;gap:28px;flex-wrap:wrap;margin-top:18px}.figures b{display:block;font-size:24px;
color:var(--hue)}code{font-size:13px;overflow-wrap:anywhere}
"""
