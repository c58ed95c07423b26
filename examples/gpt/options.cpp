#include "examples/gpt/options.h"

#include <cotangent/core/device.h>
#include <cotangent/core/error.h>
#include <cotangent/core/printable.h>
#include <cotangent/nn/io/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <optional>

#include "examples/common/command_line.h"
#include "examples/common/flags.h"
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

const char* const kDTypes[] = {"f32", "bf16", "f16", "pure-bf16", "pure-f16"};

CLI::Validator one_of(std::vector<std::string> names) { return CLI::IsMember(std::move(names)); }

// The settings of a run. --threads, and where a run lives, belong to one call of the program alone.
void add_settings(CLI::App& app, flags::Settings& s, Options& o) {
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto positive = flags::whole_number(1), not_negative = flags::whole_number(0);
  auto* data = app.add_option_group("Data");
  auto* text = s.add(data, "text", o.text, "UTF-8 text to learn; default: this project's sources")
                   ->check(flags::path());
  auto* tokens =
      s.add(data, "tokens", o.tokens, "token file as nanoGPT or llm.c write them")->check(flags::path());
  text->excludes(tokens);
  s.add(data, "val-tokens", o.val_tokens, "token file to evaluate on; default: the end of --tokens")
      ->check(flags::path());
  s.add(data, "val-fraction", o.val_fraction, "share of the text to evaluate on")
      ->check(flags::between(0, 0.9));
  s.add(data, "tokenizer", o.tokenizer,
        "tokenizer.json, vocab.json or their folder; without one, characters of --text are tokens")
      ->check(flags::path());
  s.add(data, "vocab", o.vocab, "vocabulary of --tokens without --tokenizer")->transform(positive);

  auto* model = app.add_option_group("Model");
  s.add(model, "preset", o.preset,
        "defaults of the flags below: tiny, cpu, char (6 layers, 384 wide), gpt2 (124M); auto: char "
        "on a GPU, else cpu")
      ->check(one_of({"auto", "tiny", "cpu", "char", "gpt2"}));
  s.add(model, "model", o.model, "gpt2 or llama")->check(one_of({"gpt2", "llama"}));
  s.add(model, "layers", o.layers, "blocks of attention and feed-forward network")->transform(positive);
  s.add(model, "heads", o.heads, "must divide --embd")->transform(positive);
  s.add(model, "kv-heads", o.kv_heads, "of llama; 0: as many as heads")->transform(not_negative);
  s.add(model, "embd", o.embd, "width of the hidden states")->transform(positive);
  s.add(model, "block", o.block, "tokens of a sequence")->transform(positive);
  s.add(model, "dropout", o.dropout, "probability to drop an element of the hidden states")
      ->check(flags::between(0, 0.95));

  auto* machine = app.add_option_group("Machine");
  s.add(machine, "device", o.device, "auto, cpu, cuda or cuda:N")->check(flags::device());
  s.add(machine, "dtype", o.dtype,
        "f32; bf16 or f16 with f32 weights (autocast); pure-bf16 or pure-f16 with f32 master weights")
      ->check(one_of({std::begin(kDTypes), std::end(kDTypes)}));
  s.add(machine, "workers", o.workers, "threads that make batches for a GPU")
      ->transform(flags::whole_number(0, 64));
  s.add_flag(machine, "recompute", o.recompute,
             "compute each block again in backward: less memory, a third slower");
  s.add(machine, "fused-loss", o.fused_loss,
        "output layer and loss as one op that never holds all logits; false: as two");

  auto* training = app.add_option_group("Training");
  s.add(training, "batch", o.batch, "sequences at once")->transform(positive);
  s.add(training, "accumulate", o.accumulate, "batches whose gradients make one step")->transform(positive);
  s.add(training, "iters", o.iters, "steps")->transform(positive);
  s.add(training, "lr", o.lr, "learning rate at its highest")->check(flags::positive());
  s.add(training, "min-lr", o.min_lr, "at the end of cosine; below 0: a tenth of --lr")
      ->check(flags::finite());
  s.add(training, "warmup", o.warmup, "steps until --lr is reached")->transform(not_negative);
  s.add(training, "schedule", o.schedule, "of the learning rate after the warmup")
      ->check(one_of({"cosine", "constant"}));
  s.add(training, "weight-decay", o.weight_decay, "of matrices; biases and norms have none")
      ->check(flags::not_negative());
  s.add(training, "beta1", o.beta1, "of AdamW: decay of the averaged gradient")
      ->check(flags::between(0, 0.9999));
  s.add(training, "beta2", o.beta2, "of AdamW: decay of the averaged square of the gradient")
      ->check(flags::between(0, 0.99999));
  s.add(training, "clip", o.clip, "largest norm of the gradient; 0: not clipped")
      ->check(flags::not_negative());
  s.add(training, "ema", o.ema, "decay of averaged weights, which are evaluated and saved too; 0: none")
      ->check(flags::between(0, 0.99999));
  s.add(training, "seed", o.seed, "of weights, order and dropout")->transform(flags::seed());

  auto* telling = app.add_option_group("What it tells");
  s.add(telling, "eval-interval", o.eval_interval, "steps between evaluations")->transform(positive);
  s.add(telling, "eval-batches", o.eval_batches, "batches of an evaluation")->transform(positive);
  s.add(telling, "sample", o.sample, "tokens that are written after an evaluation")->transform(not_negative);
}

// What belongs to one call of the program alone.
void add_call(CLI::App& app, Options& o) {
  auto* call = app.add_option_group("This call");
  call->add_option("--threads", o.threads,
                   "on the CPU, with the same result for any number; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
  call->add_option("--minutes", o.minutes,
                   "saves and ends after this time, for --resume to go on; 0: at the last step")
      ->check(flags::not_negative());
  call->add_option("--out", o.out, "run folder; default: runs/gpt-DATE-TIME")->check(flags::path());
  call->add_option("--resume", o.resume,
                   "a run folder, or a checkpoint in one, to go on with; other flags change its settings")
      ->check(flags::path());
}

// What `preset` stands for on a device.
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
void check_together(const CLI::App& app, const Options& o) {
  const auto refuse = [&](const char* flag, bool refused, const char* why) {
    if (refused && app.count(flag) > 0) throw CLI::ValidationError(flag, why);
  };
  refuse("--val-tokens", o.tokens.empty(),
         "it goes with --tokens; of a text, --val-fraction is evaluated on");
  refuse("--vocab", o.tokens.empty() || !o.tokenizer.empty(),
         "it goes with --tokens; a text or a --tokenizer has a vocabulary of its own");
  refuse("--kv-heads", o.model == "gpt2" && o.kv_heads > 0,
         "it goes with --model llama; gpt2 has none to share");
}

// What makes a checkpoint of another kind must stay as it was; said before anything is loaded.
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

  CLI::App app{kAbout, "gpt"};
  app.formatter(std::make_shared<flags::Help>());
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  flags::Settings run;
  add_settings(app, run, line.train);
  add_call(app, line.train);
  const auto machine = [](CLI::App& sub, std::string& device, std::string& dtype, int& threads) {
    sub.add_option("--device", device, "auto, cpu, cuda or cuda:N")->check(flags::device());
    sub.add_option("--dtype", dtype, "of the weights: f32, bf16 or f16")
        ->check(one_of({"f32", "bf16", "f16"}));
    sub.add_option("--threads", threads, "on the CPU; 0: all processors")
        ->transform(flags::whole_number(0, 1024));
  };

  GenerateOptionsLine& g = line.generate;
  auto* generate = app.add_subcommand("generate", "writes text with a trained model");
  generate
      ->add_option("--checkpoint,--model", g.checkpoint,
                   "run folder, checkpoint in one, or folder of a Hugging Face model")
      ->required()
      ->check(flags::path());
  generate->add_option("--prompt", g.prompt, "text to go on with");
  generate->add_option("--tokenizer", g.tokenizer, "default: the one in the folder")->check(flags::path());
  generate->add_option("--length", g.length, "tokens to write")->transform(flags::whole_number(1));
  generate->add_option("--samples", g.samples, "texts to write")->transform(flags::whole_number(1, 1 << 20));
  generate->add_option("--temperature", g.temperature, "0: always the most likely token")
      ->check(flags::not_negative());
  generate->add_option("--top-k", g.top_k, "draw from the k most likely tokens; 0: from all")
      ->transform(flags::whole_number(0));
  generate
      ->add_option("--top-p", g.top_p, "draw from the most likely tokens that have this probability together")
      ->check(flags::between(1e-6, 1));
  generate->add_option("--seed", g.seed, "of what is drawn")->transform(flags::seed());
  generate->add_flag("--ema", g.ema, "with the averaged weights of a run with --ema");
  machine(*generate, g.device, g.dtype, g.threads);

  LogitsOptions& l = line.logits;
  auto* logits = app.add_subcommand("logits", "the logits f32[B, T, V] of given tokens");
  logits
      ->add_option("--model,--checkpoint", l.model,
                   "folder of a Hugging Face model, run folder, or checkpoint")
      ->required()
      ->check(flags::path());
  logits->add_option("--tokens", l.tokens, ".npy file of integers [T] or [B, T]")
      ->required()
      ->check(flags::path());
  logits->add_option("--out", l.out, ".npy file to write")->required()->check(flags::path());
  machine(*logits, l.device, l.dtype, l.threads);

  ExportOptions& e = line.export_model;
  auto* export_model = app.add_subcommand("export", "writes a trained model as a Hugging Face folder");
  export_model->add_option("--checkpoint", e.checkpoint, "run folder, or checkpoint in one")
      ->required()
      ->check(flags::path());
  export_model->add_option("--out", e.out, "folder to write")->required()->check(flags::path());
  export_model->add_flag("--ema", e.ema, "the averaged weights of a run with --ema");

  TokenizeOptions& t = line.tokenize;
  auto* tokenize = app.add_subcommand("tokenize", "turns a text into a token file for --tokens");
  tokenize->add_option("--tokenizer", t.tokenizer, "tokenizer.json, vocab.json or their folder")
      ->required()
      ->check(flags::path());
  tokenize->add_option("--text", t.text, "UTF-8 text")->required()->check(flags::path());
  tokenize->add_option("--out", t.out, "token file to write")->required()->check(flags::path());
  tokenize->add_option("--format", t.format, "raw (nanoGPT), llmc or llmc32 (llm.c)")
      ->check(one_of({"raw", "llmc", "llmc32"}));
  tokenize->add_option("--decoded", t.decoded, "also decode the tokens into this file")->check(flags::path());

  const bool good = flags::parse(app, args, exit_code, [&] {
    if (app.get_subcommands().empty()) check_together(app, line.train);
  });
  if (!good) return false;
  line.train.preset = named_preset(line.train.preset, line.train.device);
  line.train.call.command = flags::quoted("gpt", args);
  line.train.call.given = run.given();
  if (saved) check_resumed(*saved, line.train);
  using Command = CommandLine::Command;
  line.command = generate->parsed()       ? Command::generate
                 : logits->parsed()       ? Command::logits
                 : export_model->parsed() ? Command::export_model
                 : tokenize->parsed()     ? Command::tokenize
                                          : Command::train;
  return true;
}

flags::Members settings(const Options& options) { return flags::members_of(options, add_settings); }

Options read_config(const std::string& folder) {
  Options o;
  const std::vector<std::string> saved = config_flags("gpt", folder, {"data", "out", "resume", "minutes"});
  choose_preset(saved, o);
  CLI::App app;
  flags::Settings s;
  add_settings(app, s, o);
  flags::apply_config(app, "gpt", folder, saved);
  o.preset = named_preset(o.preset, o.device);
  return o;
}
