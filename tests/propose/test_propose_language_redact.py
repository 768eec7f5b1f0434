"""Secrets are taken out, and code stays code."""

import pytest

from infrarsi.propose.language.redact import MARK, is_secret_file, redact, secrets_in

SECRETS = [
    ('openai.api_key = "sk-proj-abcdefghijklmnop1234"', "sk-proj-abcdefghijklmnop1234"),
    ("key = 'sk-ant-api03-AbCdEfGhIjKlMnOp_12'", "sk-ant-api03-AbCdEfGhIjKlMnOp_12"),
    ('TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"', "ghp_0123456789abcdefghij"),
    ('login(token="hf_AbCdEfGhIjKlMnOpQrStUvWx")', "hf_AbCdEfGhIjKlMnOpQrStUvWx"),
    ('aws = "AKIAIOSFODNN7EXAMPLE"', "AKIAIOSFODNN7EXAMPLE"),
    ('wandb.login(key="0123456789abcdef0123456789abcdef01234567")', "0123456789abcdef0123"),
    ('os.environ["WANDB_API_KEY"] = "a1b2c3"', "a1b2c3"),
    ('os.environ.setdefault("DB_PASSWORD", "hunter2")', "hunter2"),
    ('config = {"password": "correct horse"}', "correct horse"),
    ('password: str = "hunter2"', "hunter2"),
    ('client(secret_key = b"s3cr3t")', "s3cr3t"),
    ('URL = "postgres://bob:hunter2@db.example.com/runs"', "hunter2"),
    ('headers = {"Authorization": "Bearer abcdef0123456789abcdef"}', "abcdef0123456789abcdef"),
    ('jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-123_x"', "eyJzdWIiOiIxMjM0In0"),
    ("# ask jane.doe@example.com", "jane.doe@example.com"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_in_python_is_taken_out_and_counted(text, secret):
    cleaned = redact(text, is_python=True)
    assert secret not in cleaned.text
    assert MARK in cleaned.text
    assert cleaned.count == 1


CODE = [
    'pad_token = "[PAD]"', 'eos_token = "<|endoftext|>"', "tokens = batch[0]",
    'token_type = "word"', "num_tokens=1024", 'key = "attention_mask"', "password = ask_user()",
    "scores = q@k.transpose(-2, -1)", "y = x@w.T", "loss = a@b.to(dtype)", "@torch.no_grad()",
    'parser.add_argument("--max-tokens", "-t", type=int)', 'd["key"], d["value"]',
    'api_key = os.environ["OPENAI_API_KEY"]', 'password = ""', 'secret = "xxxx"',
    'url = "https://example.com/a:b@c"[:8]', 'api_key = "your-key-here"',
    "author_token_count = 3", "self.key = nn.Linear(dim, dim)", 'sk = "sk-short"',
]  # fmt: skip


@pytest.mark.parametrize("text", CODE)
def test_code_is_left_as_it_is(text):
    cleaned = redact(text, is_python=True)
    assert (cleaned.text, cleaned.count) == (text, 0)


def test_a_private_key_goes_whole_even_where_it_is_cut_off():
    begin = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n"
    whole = redact(f"a\n{begin}-----END RSA PRIVATE KEY-----\nb")
    assert whole.text == f"a\n{MARK}\nb"
    assert redact(f"a\n{begin}").text == f"a\n{MARK}"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export API_KEY=abcdef", "abcdef"),
        ("db:\n  password: hunter2\n", "hunter2"),
        ("client_secret = s3cr3t-value", "s3cr3t-value"),
        ("python train.py --wandb-api-key abc123 --steps 5", "abc123"),
        ("train --hf-token=abcdefgh12345678ijkl", "abcdefgh12345678ijkl"),
    ],
)
def test_unquoted_secrets_are_taken_out_of_configuration_and_commands(text, secret):
    cleaned = redact(text)
    assert secret not in cleaned.text
    assert cleaned.count == 1


def test_settings_of_a_configuration_stay():
    text = "max_tokens: 1024\ntokenizer: gpt2\nkey: value\npassword: ${DB_PASSWORD}\n"
    assert redact(text).text == text


def test_a_secret_known_by_value_goes_wherever_it_stands():
    environment = {
        "MY_API_KEY": "plain-words-only", "PATH": "/usr/bin/of/mine", "A_TOKEN": "short",
        "SOME_TOKEN": "disabled",
    }  # fmt: skip
    known = secrets_in(environment)
    assert known == ("plain-words-only",)
    cleaned = redact("x = 'plain-words-only'  # plain-words-only", is_python=True, known=known)
    assert "plain-words-only" not in cleaned.text
    assert cleaned.count == 2


@pytest.mark.parametrize(
    "path",
    [".env", "conf/.env.local", "prod.env", "keys/id_rsa", "a.pem", ".netrc", "secrets.yaml"],
)
def test_files_that_hold_credentials_are_known_by_name(path):
    assert is_secret_file(path)


@pytest.mark.parametrize("path", ["train.py", "environment.py", "keys.py", "config/token.yaml"])
def test_other_files_are_not(path):
    assert not is_secret_file(path)
