# SPDX-License-Identifier: Apache-2.0
"""frameworks.py NAME: a training run of a popular framework, or the nearest thing to one. Its result is the same in each run.

    frameworks.py --can      # lists the frameworks, each with the packages that this interpreter lacks for it after a colon

The result is the only line on stdout. The frameworks' own output, with times and progress, goes to log.txt in the working folder, and to stderr if
the run fails.
"""

import importlib.util
import logging
import os
import pathlib
import random
import socket
import sys
import tempfile
import warnings

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu",
                  TF_ENABLE_ONEDNN_OPTS="0", YOLO_CONFIG_DIR=tempfile.gettempdir(), RAY_DISABLE_IMPORT_WARNING="1")


def seeded():
    """torch with the same random numbers and one thread each time."""
    import numpy
    import torch
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch


def rounded(values):
    return [round(float(v), 5) for v in values]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def loop(torch, model, optimizer, loss, steps=12):
    """The usual training loop. Returns the values of `loss()`."""
    losses = []
    for _ in range(steps):
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return rounded(losses)


def classes(torch, n=160):
    return torch.utils.data.TensorDataset(torch.randn(n, 16), torch.randint(0, 4, (n,)))


def mlp(torch):
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def fit_lightning(**settings):
    import lightning
    torch = seeded()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.losses = mlp(torch), []

        def training_step(self, batch, _):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, _):
            self.log("validation", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), 1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]
    model, data = Module(), torch.utils.data.DataLoader(classes(torch), 8, num_workers=2)
    lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, accumulate_grad_batches=2, gradient_clip_val=1.0,
                      **settings).fit(model, data, data)
    return rounded(model.losses)


def lightning():
    return fit_lightning()


def lightning_profiled():
    """torch.profiler records beside cprof."""
    return fit_lightning(profiler="pytorch")


def lightning_ddp():
    """Lightning starts this script a second time, for the other rank."""
    return fit_lightning(strategy="ddp", devices=2)


def composer():
    from composer import ComposerModel, Trainer
    torch = seeded()
    losses = []

    class Model(ComposerModel):
        def __init__(self):
            super().__init__()
            self.net = mlp(torch)

        def forward(self, batch):
            return self.net(batch[0])

        def loss(self, outputs, batch):
            value = torch.nn.functional.cross_entropy(outputs, batch[1])
            losses.append(value.item())
            return value
    model = Model()
    trainer = Trainer(model=model, train_dataloader=torch.utils.data.DataLoader(classes(torch, 80), 8), max_duration="2ep", device="cpu",
                      optimizers=torch.optim.Adam(model.parameters(), 1e-2), progress_bar=False, auto_log_hparams=False)
    trainer.fit()
    trainer.close()
    return rounded(losses)


def tiny_gpt2(vocabulary):
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=32, n_embd=32, n_layer=2, n_head=2))


def losses_logged(trainer):
    trainer.train()
    return [rounded(v for k, v in entry.items() if k in ("loss", "grad_norm", "epoch")) for entry in trainer.state.log_history]


def transformers():
    from transformers import Trainer, TrainingArguments
    torch = seeded()
    numbers = [torch.arange(16) * (i + 1) % 100 for i in range(96)]
    return losses_logged(Trainer(
        model=tiny_gpt2(100), train_dataset=[{"input_ids": x, "labels": x} for x in numbers],
        args=TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, logging_steps=3,
                               report_to=[], use_cpu=True, save_strategy="epoch", dataloader_num_workers=1, disable_tqdm=True)))


def trl():
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer
    seeded()
    words = Tokenizer(models.WordLevel({**{f"w{i}": i for i in range(50)}, "[PAD]": 50, "[UNK]": 51, "[EOS]": 52}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return losses_logged(SFTTrainer(
        model=tiny_gpt2(53), train_dataset=Dataset.from_dict({"text": [" ".join(f"w{i * j % 50}" for j in range(12)) for i in range(40)]}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"),
        args=SFTConfig(tempfile.mkdtemp(), max_length=16, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=3, report_to=[],
                       use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True)))


def peft():
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM
    torch = seeded()
    model = get_peft_model(LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                                        num_attention_heads=4, num_key_value_heads=2)),
                           LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    tokens = torch.randint(0, 128, (2, 16))
    losses = loop(torch, model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3),
                  lambda: model(input_ids=tokens, labels=tokens).loss)
    return losses, model.eval().generate(input_ids=torch.ones(1, 4, dtype=torch.long), max_new_tokens=8, do_sample=False).tolist()


def accelerate():
    from accelerate import Accelerator
    torch = seeded()
    helper, losses = Accelerator(cpu=True, gradient_accumulation_steps=2), []
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    model, optimizer, data = helper.prepare(model, torch.optim.AdamW(model.parameters(), 1e-3), torch.utils.data.DataLoader(torch.randn(64, 10, 32), 4))
    for x in data:
        with helper.accumulate(model):
            loss = (model(x) - x).pow(2).mean()
            helper.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return rounded(losses)


def deepspeed():
    import deepspeed as framework
    torch = seeded()
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    model = torch.nn.Linear(16, 16)
    engine, *_ = framework.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 4, "zero_optimization": {"stage": 1}, "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}})
    losses = []
    for _ in range(12):
        loss = engine(torch.randn(4, 16)).pow(2).mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return rounded(losses)


def ray():
    """Two worker processes, started by a daemon of Ray."""
    import ray as framework
    framework.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    @framework.remote
    def train(seed):
        import torch
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        model = torch.nn.Linear(8, 8)
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
        for _ in range(12):
            loss = model(torch.ones(2, 8)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(round(loss.item(), 5))
        return losses
    results = framework.get([train.remote(i) for i in range(2)])
    framework.shutdown()
    return results


def timm():
    import timm as framework
    torch = seeded()
    model = framework.create_model("resnet18", num_classes=10)
    images, labels = torch.randn(2, 3, 64, 64), torch.randint(0, 10, (2,))
    return loop(torch, model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), lambda: torch.nn.functional.cross_entropy(model(images), labels))


def ultralytics():
    import numpy
    from PIL import Image
    from ultralytics import YOLO
    seeded()
    folder = pathlib.Path(tempfile.mkdtemp())
    for part in ("train", "val"):
        (folder / "images" / part).mkdir(parents=True)
        (folder / "labels" / part).mkdir(parents=True)
        for i in range(16):
            Image.fromarray(numpy.random.randint(0, 255, (64, 64, 3), dtype=numpy.uint8)).save(folder / f"images/{part}/{i}.png")
            (folder / f"labels/{part}/{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a}}\n")
    model = YOLO("yolov8n.yaml", verbose=False)
    model.train(data=str(folder / "data.yaml"), epochs=2, imgsz=64, batch=4, device="cpu", workers=1, verbose=False, plots=False, project=str(folder),
                seed=0, amp=False)
    return rounded(p.detach().double().sum() for p in list(model.trainer.model.parameters())[:8])


def torch_geometric():
    from torch_geometric.nn import GCNConv
    torch = seeded()
    nodes, edges, labels = torch.randn(100, 8), torch.randint(0, 100, (2, 400)), torch.randint(0, 3, (100,))
    layers = torch.nn.ModuleList([GCNConv(8, 16), GCNConv(16, 3)])
    return loop(torch, layers, torch.optim.Adam(layers.parameters(), 0.01),
                lambda: torch.nn.functional.cross_entropy(layers[1](layers[0](nodes, edges).relu(), edges), labels))


def torchrl():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    torch = seeded()
    model = TensorDictModule(torch.nn.Linear(8, 4), in_keys=["observation"], out_keys=["action"])
    buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
    buffer.extend(TensorDict({"observation": torch.randn(64, 8)}, [64]))
    return loop(torch, model, torch.optim.Adam(model.parameters(), 0.01), lambda: model(buffer.sample())["action"].pow(2).mean())


def fastai():
    """fastai has its own optimizers, so cprof finds no steps."""
    import fastai.callback.all  # noqa: F401 (gives learners fit_one_cycle() and no_bar())
    from fastai.basics import CrossEntropyLossFlat, DataLoaders, Learner, accuracy
    torch = seeded()
    x = torch.randn(96, 16)
    pairs = list(zip(x, (x.sum(1) > 0).long()))
    learner = Learner(DataLoaders.from_dsets(pairs[:64], pairs[64:], bs=8, device="cpu", num_workers=0), mlp(torch),
                      loss_func=CrossEntropyLossFlat(), metrics=accuracy)
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3, 1e-2)
    return [rounded(row) for row in learner.recorder.values]


def tensorflow():
    import numpy
    import tensorflow as framework
    framework.keras.utils.set_random_seed(0)
    framework.config.experimental.enable_op_determinism()
    model = framework.keras.Sequential([framework.keras.layers.Dense(32, "relu"), framework.keras.layers.Dense(4)])
    model.compile("adam", framework.keras.losses.SparseCategoricalCrossentropy(True))
    return rounded(model.fit(numpy.random.randn(80, 16), numpy.random.randint(0, 4, 80), epochs=3, verbose=0, shuffle=False).history["loss"])


def jax():
    import jax as framework
    key = framework.random.PRNGKey(0)
    w, x, y = framework.random.normal(key, (16, 4)) * 0.1, framework.random.normal(key, (32, 16)), framework.random.randint(key, (32,), 0, 4)
    step = framework.jit(framework.value_and_grad(lambda w: -framework.nn.log_softmax(x @ w)[framework.numpy.arange(32), y].mean()))
    losses = []
    for _ in range(20):
        loss, gradient = step(w)
        w = w - 0.5 * gradient
        losses.append(loss)
    return rounded(losses)


def xgboost():
    import numpy
    import xgboost as framework
    x = numpy.random.default_rng(0).normal(size=(500, 10))
    data = framework.DMatrix(x, (x.sum(1) > 0).astype(int))
    return rounded(framework.train({"objective": "binary:logistic", "nthread": 2, "seed": 0}, data, 20).predict(data)[:10])


def sklearn():
    """joblib runs the folds in worker processes."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import cross_val_score
    return rounded(cross_val_score(RandomForestClassifier(30, random_state=0), *make_classification(400, random_state=0), n_jobs=2))


def onnxruntime():
    import numpy
    import onnxruntime as framework
    from onnx import TensorProto, helper
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], numpy.arange(16, dtype=numpy.float32))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = framework.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": numpy.full((2, 4), i, numpy.float32)})[0].sum().item() for i in range(20)]


# The packages that each function imports, the framework first.
NEEDS = {
    lightning: "lightning torch", lightning_profiled: "lightning torch", lightning_ddp: "lightning torch", composer: "composer torch",
    transformers: "transformers accelerate torch", trl: "trl datasets tokenizers transformers", peft: "peft transformers torch",
    accelerate: "accelerate torch", deepspeed: "deepspeed ninja torch", ray: "ray torch", timm: "timm torch", ultralytics: "ultralytics PIL torch",
    torch_geometric: "torch_geometric torch", torchrl: "torchrl tensordict torch", fastai: "fastai torch", tensorflow: "tensorflow", jax: "jax",
    xgboost: "xgboost", sklearn: "sklearn", onnxruntime: "onnxruntime onnx",
}


def missing(function):
    return [name for name in NEEDS[function].split() if importlib.util.find_spec(name) is None]


def run(function):
    """Prints the result to stdout, and everything else to log.txt."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    out, err = os.dup(1), os.dup(2)
    log = pathlib.Path("log.txt").resolve()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        result = function()
    except BaseException:
        os.dup2(err, 2)
        sys.stderr.write(log.read_text(errors="replace"))
        raise
    os.write(out, f"{result}\n".encode())


if __name__ == "__main__":
    if sys.argv[1] == "--can":
        for one in NEEDS:
            print(one.__name__ + ":", *missing(one))
    else:
        run(next(one for one in NEEDS if one.__name__ == sys.argv[1]))
