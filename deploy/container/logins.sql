-- The logins of the service, of loads and of key administration, each in its role (see `counterfoil migrate --roles`).
-- Passwords come as the variables api, load and ops. Safe to run again; it then sets the passwords anew.
SELECT format('CREATE ROLE %I LOGIN IN ROLE %I', login, role)
FROM (VALUES
    ('cf_api', 'counterfoil_serving'),
    ('cf_load', 'counterfoil_loading'),
    ('cf_ops', 'counterfoil_administration')
) AS wanted (login, role)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login)
\gexec
ALTER ROLE cf_api PASSWORD :'api';
ALTER ROLE cf_load PASSWORD :'load';
ALTER ROLE cf_ops PASSWORD :'ops';
