// Faults, not taste: what the recommended rules find, and what a strict policy of the page forbids.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    rules: {
      "no-eval": "error", "no-implied-eval": "error", "no-new-func": "error", "no-script-url": "error", eqeqeq: "error", "prefer-const": "error",
      "no-var": "error", "no-implicit-globals": "error", "no-restricted-properties": ["error", { property: "innerHTML" }, { property: "outerHTML" }],
    },
  },
];
