#include "examples/gpt/options.h"

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/device/device.h>
#include <cotangent/nn/io/json.h>

#include <algorithm>
#include <optional>

#include "examples/common/command_line.h"
#include "examples/common/run_folder.h"

namespace {

const char* const kAbout =
    "Trains a small language model. Without arguments it learns the source code and documents of this "
    "project, "
    "character by character.";

const char* const kFooter =
    "Presets (the defaults above are those of cpu, unless --preset stands beside --help):\n"
    "  tiny   2 layers, width 32, blocks of 32, 200 steps: seconds\n"
    "  cpu    4 layers, width 128, blocks of 128, 3000 steps: minutes\n"
    "  char   6 layers, width 384, blocks of 256, 5000 steps: minutes on a GPU\n"
    "  gpt2   12 layers, width 768, blocks of 1024, 20000 steps: 124 million parameters\n"
    "\n"
    "Examples:\n"
    "  ./ct gpt --text shakespeare.txt --preset char\n"
    "  ./ct gpt --resume runs/gpt-DATE-TIME --iters 6000      goes on, with the settings of that run\n"
    "  ./ct gpt generate --checkpoint runs/gpt-DATE-TIME --prompt \"Tensor \"\n"
    "\n"
    "A run leaves in its folder: config.json (what it was made with), history.jsonl (each time it went on),\n"
    "tokenizer.json, metrics.csv, loss.svg, samples.txt, checkpoint-last.safetensors and\n"
    "checkpoint-best.safetensors. Ctrl-C saves and ends. Exit codes: 0 done, 1 an error, 2 a wrong command "
    "line,\n"
    "130 interrupted.";

void apply_preset(const std::string& name, Options& o) {
  o.preset = name;
  if (name == "tiny") {
    o.layers = 2, o.heads = 2, o.embd = 32, o.block = 32, o.batch = 8, o.iters = 200, o.warmup = 10;
    o.eval_interval = 50, o.eval_batches = 4, o.sample = 80;
  } else if (name == "char") {
    o.layers = 6, o.heads = 6, o.embd = 384, o.block = 256, o.batch = 64, o.iters = 5000, o.warmup = 100;
    o.lr = 1e-3, o.min_lr = 1e-4, o.dropout = 0.2, o.eval_interval = 250, o.eval_batches = 20;
  } else if (name == "gpt2") {
    o.layers = 12, o.heads = 12, o.embd = 768, o.block = 1024, o.batch = 16, o.accumulate = 32;
    o.iters = 20000, o.warmup = 700, o.lr = 6e-4, o.beta2 = 0.95, o.eval_interval = 250, o.eval_batches = 20;
  }
}

// The settings of a run. --threads, and where a run lives, belong to one call of the program alone.
void add_settings(flags::Flags run, Options& o) {
  const auto data = run.group("Data");
  const auto text = data.path("--text", o.text, "UTF-8 text to learn; default: this project's sources");
  text.excludes(data.path("--tokens", o.tokens, "token file as nanoGPT or llm.c write them"));
  data.path("--val-tokens", o.val_tokens, "token file to evaluate on; default: the end of --tokens");
  data.between("--val-fraction", o.val_fraction, "share of the text to evaluate on", 0, 0.9);
  data.path("--tokenizer", o.tokenizer,
            "tokenizer.json, vocab.json or their folder; without one, characters of --text are tokens");
  data.whole("--vocab", o.vocab, "vocabulary of --tokens without --tokenizer");

  const auto model = run.group("Model");
  model.one_of("--preset", o.preset,
               "defaults of the flags below: tiny, cpu, char (6 layers, 384 wide), gpt2 (124M); auto: char "
               "on a GPU, else cpu",
               {"auto", "tiny", "cpu", "char", "gpt2"});
  model.one_of("--model", o.model, "gpt2 or llama", {"gpt2", "llama"});
  model.whole("--layers", o.layers, "blocks of attention and feed-forward network");
  model.whole("--heads", o.heads, "must divide --embd");
  model.whole("--kv-heads", o.kv_heads, "of llama; 0: as many as heads", 0);
  model.whole("--embd", o.embd, "width of the hidden states");
  model.whole("--block", o.block, "tokens of a sequence");
  model.between("--dropout", o.dropout, "probability to drop an element of the hidden states", 0, 0.95);

  const auto machine = run.group("Machine");
  machine.device(o.device);
  machine.one_of(
      "--dtype", o.dtype,
      "f32; bf16 or f16 with f32 weights (autocast); pure-bf16 or pure-f16 with f32 master weights",
      {"f32", "bf16", "f16", "pure-bf16", "pure-f16"});
  machine.whole("--workers", o.workers, "threads that make batches for a GPU", 0, 64);
  machine.on("--recompute", o.recompute, "compute each block again in backward: less memory, a third slower");
  machine.on_or_off("--fused-loss", o.fused_loss,
                    "output layer and loss as one op that never holds all logits; false: as two");

  const auto training = run.group("Training");
  training.whole("--batch", o.batch, "sequences at once");
  training.whole("--accumulate", o.accumulate, "batches whose gradients make one step");
  training.whole("--iters", o.iters, "steps");
  training.positive("--lr", o.lr, "learning rate at its highest");
  training.finite("--min-lr", o.min_lr, "at the end of cosine; below 0: a tenth of --lr");
  training.whole("--warmup", o.warmup, "steps until --lr is reached", 0);
  training.one_of("--schedule", o.schedule, "of the learning rate after the warmup", {"cosine", "constant"});
  training.not_negative("--weight-decay", o.weight_decay, "of matrices; biases and norms have none");
  training.between("--beta1", o.beta1, "of AdamW: decay of the averaged gradient", 0, 0.9999);
  training.between("--beta2", o.beta2, "of AdamW: decay of the averaged square of the gradient", 0, 0.99999);
  training.not_negative("--clip", o.clip, "largest norm of the gradient; 0: not clipped");
  training.between("--ema", o.ema, "decay of averaged weights, which are evaluated and saved too; 0: none", 0,
                   0.99999);
  training.seed("--seed", o.seed, "of weights, order and dropout");

  const auto telling = run.group("What it tells");
  telling.whole("--eval-interval", o.eval_interval, "steps between evaluations");
  telling.whole("--eval-batches", o.eval_batches, "batches of an evaluation");
  telling.whole("--sample", o.sample, "tokens that are written after an evaluation", 0);
}

// Flags of one call, which a resumed run does not keep.
void add_call(flags::Flags call, Options& o) {
  call.threads(o.threads, "on the CPU, with the same result for any number; 0: all processors");
  call.not_negative("--minutes", o.minutes,
                    "saves and ends after this time, for --resume to go on; 0: at the last step");
  call.on("--eager", o.eager, flags::kEagerHelp);
  call.path("--out", o.out, "run folder; default: runs/gpt-DATE-TIME");
  call.path("--resume", o.resume,
            "a run folder, or a checkpoint in one, to go on with; other flags change its settings");
  o.profile.add(call);
}

// The machine of a command.
void add_machine(flags::Flags command, std::string& device, std::string& dtype, int& threads) {
  command.device(device);
  command.one_of("--dtype", dtype, "of the weights: f32, bf16 or f16", {"f32", "bf16", "f16"});
  command.threads(threads, "on the CPU; 0: all processors");
}

void add_generate(flags::Flags generate, GenerateOptionsLine& g) {
  generate
      .path("--checkpoint,--model", g.checkpoint,
            "run folder, checkpoint in one, or folder of a Hugging Face model")
      .required();
  generate.text("--prompt", g.prompt, "text to go on with");
  generate.path("--tokenizer", g.tokenizer, "default: the one in the folder");
  generate.whole("--length", g.length, "tokens to write");
  generate.whole("--samples", g.samples, "texts to write", 1, 1 << 20);
  generate.not_negative("--temperature", g.temperature, "0: always the most likely token");
  generate.whole("--top-k", g.top_k, "draw from the k most likely tokens; 0: from all", 0);
  generate.between("--top-p", g.top_p, "draw from the most likely tokens that have this probability together",
                   1e-6, 1);
  generate.seed("--seed", g.seed, "of what is drawn");
  generate.on("--ema", g.ema, "with the averaged weights of a run with --ema");
  add_machine(generate, g.device, g.dtype, g.threads);
}

void add_logits(flags::Flags logits, LogitsOptions& l) {
  logits.path("--model,--checkpoint", l.model, "folder of a Hugging Face model, run folder, or checkpoint")
      .required();
  logits.path("--tokens", l.tokens, ".npy file of integers [T] or [B, T]").required();
  logits.path("--out", l.out, ".npy file to write").required();
  add_machine(logits, l.device, l.dtype, l.threads);
}

void add_export(flags::Flags export_model, ExportOptions& e) {
  export_model.path("--checkpoint", e.checkpoint, "run folder, or checkpoint in one").required();
  export_model.path("--out", e.out, "folder to write").required();
  export_model.on("--ema", e.ema, "the averaged weights of a run with --ema");
}

void add_tokenize(flags::Flags tokenize, TokenizeOptions& t) {
  tokenize.path("--tokenizer", t.tokenizer, "tokenizer.json, vocab.json or their folder").required();
  tokenize.path("--text", t.text, "UTF-8 text").required();
  tokenize.path("--out", t.out, "token file to write").required();
  tokenize.one_of("--format", t.format, "raw (nanoGPT), llmc or llmc32 (llm.c)", {"raw", "llmc", "llmc32"});
  tokenize.path("--decoded", t.decoded, "also decode the tokens into this file");
}

// Name of the preset that `preset` (empty, "auto" or a name) stands for on a device.
std::string named_preset(const std::string& preset, const std::string& device) {
  if (!preset.empty() && preset != "auto") return preset;
  bool gpu = false;
  try {
    gpu = ct::parse_device(device.empty() ? "auto" : device).is_cuda();
  } catch (const ct::Error&) {}  // the parser will say so
  return gpu ? "char" : "cpu";
}

void choose_preset(const std::vector<std::string>& args, Options& o) {
  apply_preset(named_preset(flags::early(args, "--preset"), flags::early(args, "--device")), o);
}

// Flags that would have no effect, given with others or without them.
void check_together(flags::Flags all, const Options& o) {
  const auto refuse = [&](const char* flag, bool refused, const char* why) {
    if (refused && all.given(flag)) flags::refuse(flag, why);
  };
  refuse("--val-tokens", o.tokens.empty(),
         "it goes with --tokens; of a text, --val-fraction is evaluated on");
  refuse("--vocab", o.tokens.empty() || !o.tokenizer.empty(),
         "it goes with --tokens; a text or a --tokenizer has a vocabulary of its own");
  refuse("--kv-heads", o.model == "gpt2" && o.kv_heads > 0,
         "it goes with --model llama; gpt2 has none to share");
}

// Checks, before anything is loaded, that settings on which a checkpoint depends are unchanged.
void check_resumed(const Options& saved, const Options& now) {
  std::vector<std::string> kept = {
      "preset", "model", "layers", "heads", "kv-heads",
      "embd",   "block", "vocab",  "batch"};  // the place in the data is counted in batches
  if (now.dtype.starts_with("pure-") || saved.dtype.starts_with("pure-")) kept.emplace_back("dtype");
  if ((now.ema > 0) != (saved.ema > 0)) kept.emplace_back("ema");
  check_kept("gpt", now.resume, saved.call.before, settings(now), kept);
  CT_CHECK(saved.tokens.empty() == now.tokens.empty() && (now.text.empty() || now.tokens.empty()),
           ct::ValueError, "gpt", "the run ", now.resume, " learns ",
           saved.tokens.empty() ? "a text" : "a token file", ", and would get ",
           saved.tokens.empty() ? "--tokens" : "--text", "; leave that out, or train anew without --resume");
}

}  // namespace

bool parse_command_line(int argc, char** argv, CommandLine& line, int& exit_code) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const bool subcommand = !args.empty() && !args[0].empty() && args[0][0] != '-';
  const std::string resume = subcommand ? "" : flags::early(args, "--resume");
  std::optional<Options> saved;  // of the run to go on with
  if (resume.empty()) {
    const bool help =
        std::count(args.begin(), args.end(), "--help") + std::count(args.begin(), args.end(), "-h") > 0;
    if (help && flags::early(args, "--preset").empty()) {
      apply_preset("cpu", line.train);  // the same help on every machine
    } else {
      choose_preset(args, line.train);
    }
    line.train.preset = "auto";
  } else {
    saved = read_config(RunFolder::folder_of(RunFolder::checkpoint_in("gpt", resume)));
    saved->call.before = settings(*saved);
    line.train = *saved;
  }

  flags::Program program("gpt", kAbout, kFooter);
  flags::Settings run;
  add_settings(program.flags(&run), line.train);
  const flags::Flags all = program.flags();
  add_call(all.group("This call"), line.train);
  const auto generate = all.command("generate", "writes text with a trained model");
  add_generate(generate, line.generate);
  const auto logits = all.command("logits", "the logits f32[B, T, V] of given tokens");
  add_logits(logits, line.logits);
  const auto export_model = all.command("export", "writes a trained model as a Hugging Face folder");
  add_export(export_model, line.export_model);
  const auto tokenize = all.command("tokenize", "turns a text into a token file for --tokens");
  add_tokenize(tokenize, line.tokenize);

  const bool good = program.parse(args, exit_code, [&] {
    using Command = CommandLine::Command;
    line.command = generate.parsed()       ? Command::generate
                   : logits.parsed()       ? Command::logits
                   : export_model.parsed() ? Command::export_model
                   : tokenize.parsed()     ? Command::tokenize
                                           : Command::train;
    if (line.command == Command::train) check_together(all, line.train);
  });
  if (!good) return false;
  line.train.preset = named_preset(line.train.preset, line.train.device);
  line.train.call.command = flags::quoted("gpt", args);
  line.train.call.given = run.given();
  if (saved) check_resumed(*saved, line.train);
  return true;
}

flags::Members settings(const Options& options) { return flags::members_of(options, add_settings); }

Options read_config(const std::string& folder) {
  Options o;
  const std::vector<std::string> saved = config_flags("gpt", folder, {"data", "out", "resume", "minutes"});
  choose_preset(saved, o);
  flags::Program program("gpt", kAbout);
  add_settings(program.flags(), o);
  program.apply_config(folder, saved);
  o.preset = named_preset(o.preset, o.device);
  return o;
}
